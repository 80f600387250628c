"""The split of each sample, from a column of a table, from an array or by a share.

Shapes: M samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.plain import plain

NUMBERED_SPLITS = ("train", "test", "validation")  # in the order of their numbers 0, 1 and 2


def split_numbers(split: Shaped[np.ndarray, "M"], place: Path | str) -> Int[np.ndarray, "M"]:
    """The split of each sample as a number: 0 for training, 1 for test, 2 for validation.

    Raises:
        DataError: an entry is none of train, test, validation, 0, 1 and 2; the message names its
            row.
    """
    if split.dtype.names is not None:
        raise DataError(
            f"{place}: split must be train, test or validation, or 0, 1 or 2, got columns "
            f"{split.dtype.names}"
        )
    text = split.dtype.kind == "U" or (
        split.dtype == object and any(isinstance(entry, str) for entry in split)
    )
    names = NUMBERED_SPLITS if text else (0, 1, 2)
    number = np.select([split == name for name in names], range(3), -1)
    if (number < 0).any():
        row = int(np.argmin(number))
        raise DataError(
            f"{place}: split must be train, test or validation, or 0, 1 or 2, but row {row} has "
            f"{split[row]}"
        )
    return number


def train_share(test: Any) -> float:
    """The share of training samples, from a share of test samples."""
    test = plain(test)
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 <= test < 1:
        raise ConfigError(
            f"test must be each client's share of test samples, from 0 to below 1, got {test!r}"
        )
    # Rounded, because 1 - 0.9 is 0.09999999999999998.
    return round(1 - float(test), 12)
