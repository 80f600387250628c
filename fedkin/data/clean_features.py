"""Features of the user's samples in a new array, checked and converted a block at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from fedkin.core.errors import DataError
from fedkin.data.array_checks import row_blocks
from fedkin.data.array_targets import feature_array
from fedkin.data.features import Features
from fedkin.data.raw_tables import RawTable
from fedkin.data.table_transform import TableTransform


def clean_features(
    x: Features,
    place: Path | str,
    integers: bool = False,
    transform: TableTransform | None = None,
) -> Shaped[np.ndarray, "M ..."]:
    """Features in a new array, read a block at a time: as float32, and raw values that are scaled
    later as float64. Pixels (uint8) become 0 .. 1.

    Args:
        x: numbers [M, ...].
        place: file or name with which error messages begin.
        integers: whether x must be integers, and keep their type.
        transform: scales the columns of a table; None to keep their values.

    Raises:
        DataError: there are no samples, or features are not numbers, not finite, or too large for
            float32.
        ConfigError: the features do not fit into memory.
    """
    check_numbers(x, place)
    if integers and x.dtype.kind == "f":
        raise DataError(f"{place}: x must be integers with integers=True, got {x.dtype}")
    kind = np.dtype(np.float32) if transform is None else transform.dtype
    clean = feature_array(place, x.shape, x.dtype if integers else kind)
    not_finite: list[int] = []
    too_large: list[int] = []
    row_bytes = int(np.prod(x.shape[1:])) * x.dtype.itemsize
    for rows in row_blocks(x.shape[0], row_bytes):
        block = np.asarray(x[rows])
        if transform is not None:
            block = transform.apply(block)
        if integers:
            clean[rows] = block
        elif block.dtype == np.uint8:
            clean[rows] = block.astype(np.float32) / np.float32(255)
        else:
            # Numbers that overflow float32 become infinite, and are reported below.
            with np.errstate(over="ignore"):
                clean[rows] = block
            not_finite += _not_finite(block, rows.start)
            too_large += _not_finite(clean[rows], rows.start)
    for wrong, what in (
        (not_finite, "NaN or infinity"),
        (too_large, "a number too large for float32, over 3.4e38; scale the features"),
    ):
        if wrong:
            raise DataError(
                f"{place}: features must be finite, but row {wrong[0]} holds {what} ({len(wrong)} "
                "such rows)"
            )
    return clean


def check_numbers(x: Features | RawTable, place: Path | str) -> None:
    """Raise DataError unless features are numbers of at least one sample."""
    kind = x.dtype.kind
    size = int(np.prod(x.shape))
    axes = len(x.shape)
    if axes < 2 or kind not in "biuf" or not size:
        hint = "; one feature is x[:, None]" if axes == 1 and kind in "iuf" and size else ""
        raise DataError(
            f"{place}: x must be numbers of shape [M, ...], got {x.dtype} of shape {x.shape}{hint}"
        )


def _not_finite(block: Shaped[np.ndarray, "b ..."], start: int) -> list[int]:
    """The rows (samples) of a block that hold NaN or infinity; the block begins at row
    ``start``."""
    finite = np.isfinite(block)
    if finite.all():
        return []
    bad = ~finite.reshape(len(block), -1).all(axis=1)
    return (start + np.flatnonzero(bad)).tolist()
