"""Checks of arrays that the user gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Shaped

_BLOCK_BYTES = 2**24  # bytes of samples that are checked at a time


def row_blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices that cover all rows (samples) of an array, each of a bounded number of bytes.

    Args:
        rows: number of rows.
        row_bytes: bytes of a row.
    """
    step = max(1, _BLOCK_BYTES // max(1, row_bytes))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def first_not_finite(x: Shaped[np.ndarray, "M ..."]) -> int | None:
    """The first sample with a NaN or infinite feature; None if there is none.

    It works in blocks of samples, because a mask of all features at once takes a quarter of the
    memory of x.
    """
    for rows in row_blocks(len(x), x[:1].nbytes):
        block = x[rows]
        finite = np.isfinite(block)
        if not finite.all():
            bad = ~finite.reshape(len(block), -1).all(axis=1)
            return rows.start + int(np.flatnonzero(bad)[0])
    return None


def is_array(value: object, kinds: str, ndim: int | None = None) -> bool:
    """Whether a value is an array of one of these kinds of numbers.

    Args:
        value: any object.
        kinds: letters of ``dtype.kind``.
        ndim: number of axes; None for any number.
    """
    return (
        isinstance(value, np.ndarray) and value.dtype.kind in kinds and ndim in (None, value.ndim)
    )


def type_of(value: object) -> str:
    """The type of a value in words, for error messages."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    least = f", from {value.min()}" if value.dtype.kind == "i" and value.size else ""
    return f"{value.dtype} of shape {value.shape}{least}"
