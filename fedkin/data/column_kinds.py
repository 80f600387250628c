"""What a column of a table holds: numbers, categories or dates. Dates are refused, since a model
needs numbers that mean something, such as a month."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.core.object_repr import listed
from fedkin.data.column_checks import check_size, refuse_marks, refuse_mostly_numbers
from fedkin.data.number_columns import read_numbers

NUMBER = "number"
CATEGORY = "category"
# A date, and perhaps a time of day, at the beginning of a text.
_DATE = re.compile(
    r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{4})([T ].*)?\s*"
)


def kind_of(column: Any, name: Any, place: Path | str, start: int = 0) -> str | None:
    """What a column holds: ``number`` (also booleans), ``category``, or None if all of its cells
    are empty.

    Args:
        column: a column of a DataFrame.
        name: name of the column.
        place: file or name with which messages begin.
        start: number of the first row, if the column is a part of a longer one.

    Raises:
        DataError: the column holds dates, complex numbers, or text that is mostly numbers.
    """
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        raise DataError(_dates(name, place, column.dropna().head(1).tolist()))
    if types.is_timedelta64_dtype(column):
        raise DataError(
            f"{place}: column {name} holds {column.dtype}, not numbers; convert it, such as with "
            f"table[{name!r}].dt.total_seconds(), or leave it out: drop = [{str(name)!r}]"
        )
    if types.is_complex_dtype(column):
        raise DataError(
            f"{place}: column {name} holds complex numbers; use their real and imaginary parts, or "
            f"leave it out: drop = [{str(name)!r}]"
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        return CATEGORY
    if types.is_numeric_dtype(column):
        return NUMBER
    present = column.dropna()
    if not len(present):
        return None
    if all(isinstance(cell, (bool, np.bool_)) for cell in present):
        return NUMBER
    if any(_is_date(cell) for cell in present.head(1)) and all(map(_is_date, present)):
        raise DataError(_dates(name, place, present.head(1).tolist()))
    refuse_marks(column, name, place, start)
    refuse_mostly_numbers(column, name, place, start)
    read: Any = pd.to_numeric(present, errors="coerce")
    readable = read.notna().all()
    if readable and not all(isinstance(cell, str) for cell in present):
        return NUMBER
    return CATEGORY


def as_numbers(
    column: Any, name: Any, place: Path | str, start: int = 0, clients: Any = None
) -> Float64[np.ndarray, "M"]:
    """A column as numbers; NaN where a value is missing.

    Args:
        column: a column of numbers or booleans.
        name: name of the column.
        place: file or name with which messages begin.
        start: number of the first row.
        clients: the client of each row of the table, for messages; None if it is unknown.

    Raises:
        DataError: a cell is text, or infinite; the message names the column, the row, the client
            and the cure.
    """
    numbers, _, text = read_numbers(column)
    if text.any():
        row = int(np.argmax(text))
        raise DataError(
            f"{place}: expected numbers in column {str(name)!r}, got {column.iloc[row]!r} in row "
            f"{start + row} (rows count from 0; {int(text.sum())} such rows); correct it, or "
            "leave the cell empty if the value is missing"
        )
    check_size(numbers, name=name, place=place, start=start, clients=clients)
    return numbers


def category_names(column: Any) -> list[str | None]:
    """The category of each cell as text; None where it is missing. The number 3.0 is the category
    3, since a column of whole numbers with missing values is read as 3.0."""
    missing = column.isna().to_numpy()
    cells = column.astype(object).tolist()
    return [None if absent else _name(cell) for cell, absent in zip(cells, missing, strict=True)]


def _name(cell: Any) -> str:
    """The name of a category."""
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def _is_date(cell: Any) -> bool:
    """Whether a cell is a date, or a text that begins with one."""
    import datetime

    if isinstance(cell, (datetime.date, datetime.time)):
        return True
    return isinstance(cell, str) and bool(_DATE.fullmatch(cell))


def _dates(name: Any, place: Path | str, first: list[Any]) -> str:
    """The message about a column of dates."""
    text = str(name)
    return (
        f"{place}: column {text} holds dates, such as {listed(first)}; make numbers of them first, "
        f"such as table['{text}_month'] = pandas.to_datetime(table[{text!r}]).dt.month (also year, "
        f"hour), and leave the column out: drop = [{text!r}]"
    )
