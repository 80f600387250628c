"""Checks of arrays that come from outside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Shaped

_BLOCK_BYTES = 2**24  # of samples that are checked at a time


def row_blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of some rows each, of bounded size.

    Args:
        rows: how many there are.
        row_bytes: that one takes.
    """
    step = max(1, _BLOCK_BYTES // max(1, row_bytes))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def first_not_finite(x: Shaped[np.ndarray, "M ..."]) -> int | None:
    """The first sample with NaN or an infinite feature, looked for in blocks: a mask of all takes a
    quarter of x."""
    for rows in row_blocks(len(x), x[:1].nbytes):
        part = x[rows]
        if not np.isfinite(part).all():
            return rows.start + int(
                np.flatnonzero(~np.isfinite(part.reshape(len(part), -1)).all(axis=1))[0]
            )
    return None


def is_array(value: object, kinds: str, ndim: int | None = None) -> bool:
    """Whether it is an array of such numbers.

    Args:
        value: what came.
        kinds: letters of NumPy's kinds of types.
        ndim: the number of its axes; None for any.
    """
    return (
        isinstance(value, np.ndarray) and value.dtype.kind in kinds and ndim in (None, value.ndim)
    )


def type_of(value: object) -> str:
    """What it is, in words."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    least = f", from {value.min()}" if value.dtype.kind == "i" and value.size else ""
    return f"{value.dtype} of shape {value.shape}{least}"
