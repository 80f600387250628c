"""Checks of a table's columns, with messages that name column, row and client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError, unknown
from fedkin.core.object_repr import client_of
from fedkin.data.csv_tables import Table

# A number with commas or with several points, such as 1,5 or 1.000,5, or a word that stands for a
# missing value.
_MARKED = re.compile(
    r"\s*([+-]?[\d.]*,[\d.,]+|[+-]?\d{1,3}(\.\d{3}){2,}|NA|N/A|n/a|NaN|nan|None|null|NULL|-|\?)\s*"
)


def check_columns(
    table: Table, names: Sequence[Any], place: Path | str, cures: Mapping[str, str] | None = None
) -> None:
    """Raise DataError for a column that does not exist. The message names the column with the most
    similar name.

    Args:
        table: a DataFrame.
        names: columns that the table must have.
        place: file or name with which error messages begin.
        cures: advice for a column that does not exist, by the column's name.
    """
    for name in names:
        if name not in table.columns:
            message = unknown("column", str(name), map(str, table.columns))
            cure = (cures or {}).get(name)
            if cure:
                message += f"; {cure}"
            raise DataError(f"{place}: {message}")


def refuse_mostly_numbers(column: Any, name: Any, place: Path | str, start: int) -> None:
    """Raise DataError for a column of text in which most cells are numbers but some are not.

    Args:
        column: a column of a DataFrame.
        name: name of the column.
        place: file or name with which the message begins.
        start: number of the first row.
    """
    import pandas as pd

    is_text = pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)
    if pd.api.types.is_numeric_dtype(column) or not is_text:
        return
    present = column.notna().to_numpy()
    wrong = present & np.asarray(pd.isna(pd.to_numeric(column, errors="coerce")))
    if 0 < wrong.sum() < present.sum() / 2:
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: column {name}, row {start + row} (rows count from 0) holds "
            f"{column.iloc[row]!r}, which is not a number ({wrong.sum()} such rows); correct it, "
            "leave these rows out, or name the other columns with features="
        )


def refuse_marks(column: Any, name: Any, place: Path | str, start: int) -> None:
    """Raise DataError for a column of numbers with commas, or with words for missing values.

    Args:
        column: a column of a DataFrame.
        name: name of the column.
        place: file or name with which the message begins.
        start: number of the first row.
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        return
    present = [str(cell) for cell in column.dropna()]
    marked = np.array([bool(_MARKED.fullmatch(cell)) for cell in present], bool)
    readable = ~np.asarray(
        pd.isna(pd.to_numeric(pd.Series(present, dtype=object), errors="coerce"))
    )
    has_numbers = readable.any() or any("," in cell for cell in present)
    if not marked.any() or not has_numbers or not (marked | readable).all():
        return
    row = int(np.argmax([bool(_MARKED.fullmatch(str(cell))) for cell in column]))
    raise DataError(
        f"{place}: column {name}, row {start + row} (rows count from 0) holds "
        f"{column.iloc[row]!r}, which is not a number. It may have a decimal comma or thousands "
        "separators, or be a word for a missing value. Write numbers as 1234.5, leave out rows "
        "without a value, or name the other columns with features="
    )


def check_size(
    values: Float64[np.ndarray, "M"],
    name: Any,
    place: Path | str,
    start: int,
    clients: Any = None,
) -> None:
    """Raise DataError for infinity, and for numbers that are infinite as float32.

    Args:
        values: the numbers of a column; NaN where they are missing.
        name: name of the column.
        place: file or name with which the message begins.
        start: number of the first row.
        clients: the client of each row of the whole table; None if it is unknown.
    """
    large = np.abs(values) > np.finfo(np.float32).max
    if large.any():
        row = int(np.argmax(large))
        what = "a number too large for float32, over 3.4e38"
        cure = "scale the features"
        if np.isinf(values[row]):
            what = "infinity"
            cure = "correct it, or leave the cell empty if the value is missing"
        client = client_of(clients, start + row)
        found = f"{client}; {large.sum()} such rows" if client else f"{large.sum()} such rows"
        raise DataError(f"{place}: column {name}, row {start + row} holds {what} ({found}); {cure}")
