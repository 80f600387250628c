"""Selection of a model's input columns from a table, by name and in the order of the training
data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import DataError
from fedkin.data.column_checks import check_columns
from fedkin.data.tables import first_text


def is_table(x: Any) -> bool:
    """Whether samples are a pandas DataFrame."""
    return hasattr(x, "columns") and hasattr(x, "loc")


def values_of(table: Any, names: Sequence[str], place: Path | str, dtype: Any) -> np.ndarray:
    """The named columns, in this order, as an array [B, d].

    Args:
        table: a DataFrame; its other columns are ignored.
        names: names of the features with which the model was trained.
        place: file or name with which error messages begin.
        dtype: type of the array.

    Raises:
        DataError: a column is missing (the message suggests a similar one), occurs twice, or is not
            numeric; or a value is missing or infinite.
    """
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    check_columns(table, names, place, dict.fromkeys(names, "the model needs it"))
    for name in names:
        if list(table.columns).count(name) > 1:
            raise DataError(f"{place}: expected columns with different names, got {name!r} twice")
        if table[name].dtype.kind not in "iufb":
            raise DataError(
                f"{place}: expected numbers in column {name!r}, got "
                f"{first_text(table[name]) or table[name].dtype}"
            )
        _check_values(table[name], name, place)
    try:
        return table[list(names)].astype(dtype).to_numpy()
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{place}: columns {names[0]} .. {names[-1]} have values that are not "
            f"{np.dtype(dtype)}: {error}"
        ) from error


def _check_values(column: Any, name: str, place: Path | str) -> None:
    """Raise DataError for values that are missing, infinite, or too large for float32."""
    numbers = column.astype(np.float64).to_numpy(na_value=np.nan)
    wrong = ~(np.abs(numbers) <= np.finfo(np.float32).max)
    if wrong.any():
        row = int(np.argmax(wrong))
        what = f"{numbers[row]:g}, which is not finite as float32"
        if np.isnan(numbers[row]):
            what = "NaN, a missing value"
        raise DataError(
            f"{place}: column {name!r}, row {row} (rows count from 0) holds {what} ({wrong.sum()} "
            "such rows); fill it in, or leave these rows out"
        )
