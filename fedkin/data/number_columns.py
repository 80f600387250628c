"""Columns of numbers: labels, exposures, weights and features as numbers, with messages about cells
that are none.

Shapes: M samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

from fedkin.core.errors import DataError
from fedkin.core.object_repr import of_client


class ReadNumbers(NamedTuple):
    """A column as numbers.

    Attributes:
        numbers: the numbers; NaN where a cell has none.
        missing: cells that are empty.
        text: cells that are neither empty nor a number.
    """

    numbers: Float64[np.ndarray, "M"]
    missing: Bool[np.ndarray, "M"]
    text: Bool[np.ndarray, "M"]


def read_numbers(column: Any) -> ReadNumbers:
    """Read the cells of a column as numbers.

    Args:
        column: a Series of pandas.
    """
    import pandas as pd

    read: Any = pd.to_numeric(column, errors="coerce")
    numbers = read.to_numpy(np.float64, na_value=np.nan)
    missing = column.isna().to_numpy()
    return ReadNumbers(numbers, missing, np.isnan(numbers) & ~missing)


def numbers_of(
    values: Any, what: str, place: Path | str, clients: Any = None, allow_missing: bool = False
) -> Float64[np.ndarray, "M"]:
    """Labels, exposures or weights as numbers.

    Args:
        values: an array, a column of a table, or a list.
        what: what the values are, for messages.
        place: file or name with which messages begin.
        clients: client of each sample, for messages; None if it is unknown.
        allow_missing: whether a missing value becomes NaN.

    Raises:
        DataError: a value is text or missing; the message names row and client.
    """
    import pandas as pd

    column = pd.Series(np.asarray(values).ravel()) if not hasattr(values, "dtype") else values
    column = pd.Series(np.asarray(column))
    numbers, missing, text = read_numbers(column)
    if text.any():
        row = int(np.argmax(text))
        raise DataError(
            f"{place}: the {what} in row {row}{of_client(clients, row)} is {column.iloc[row]!r}, "
            f"which is not a number ({int(text.sum())} such rows); name a column of numbers, or "
            "leave out task and loss to learn classes"
        )
    if missing.any() and not allow_missing:
        row = int(np.argmax(missing))
        raise DataError(
            f"{place}: the {what} in row {row}{of_client(clients, row)} is missing "
            f"({int(missing.sum())} such rows); leave out these rows"
        )
    return numbers


def check_above_zero(
    values: Float[np.ndarray, "M"], what: str, place: Path | str, clients: Any = None
) -> None:
    """Raise DataError for an exposure or a weight that is not above 0, or not finite.

    Args:
        values: the exposures or weights of all samples.
        what: what the values are, for the message.
        place: file or name with which the message begins.
        clients: client of each sample, for the message; None if it is unknown.
    """
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: the {what} in row {row}{of_client(clients, row)} is {values[row]:g} "
            f"({int(wrong.sum())} such rows); every {what} must be above 0; leave out these rows, "
            "or correct them"
        )
