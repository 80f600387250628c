"""Columns of a table that are the label some steps before, by their names, such as ``sales_lag12``:
they are used as they are, and a lag of that name is not made.

Shapes: M rows of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import DataError
from fedkin.data.files import Table
from fedkin.data.number_columns import numbers_of
from fedkin.data.series_history import SeriesHistory

# Rows whose values differ by more than this share of the labels' deviation are not the same number,
# rounded. Some rows may differ, because published series are revised.
_ROUNDING = 0.01
_MOST_REVISED = 0.5


def lag_name(label: Any, lag: int) -> str:
    """The name of the column of a lag."""
    return f"{label}_lag{lag}"


def given_lags(
    table: Table,
    label: Any,
    features: Sequence[Any] | None,
    lags: Sequence[int],
    unused: Sequence[Any] = (),
) -> dict[str, int]:
    """The features of a table that are the label some steps before, and the number of steps.

    Args:
        table: a row for each client and step.
        label: column of the label.
        features: columns of the features; None for all others.
        lags: the wanted lags.
        unused: columns that are left out.
    """
    of_label = re.compile(re.escape(str(label)) + r"_lag(\d+)")
    wanted = {lag_name(label, lag) for lag in lags}
    wanted |= set(map(str, table.columns if features is None else features))
    wanted -= set(map(str, unused))
    matches = {str(name): of_label.fullmatch(str(name)) for name in table.columns}
    return {name: int(match[1]) for name, match in matches.items() if match and name in wanted}


def check_given_lags(
    table: Table, given: dict[str, int], history: SeriesHistory, *, label: Any, place: Path | str
) -> None:
    """Check that the columns of a table are the label so many steps before.

    Args:
        table: a row for each client and step.
        given: the columns and their lags.
        history: the same table as series.
        label: column of the label.
        place: file or name with which messages begin.

    Raises:
        DataError: a column is the label itself, is not numeric, or has other values.
    """
    for name, lag in given.items():
        cure = f"rename the column, or leave it out: drop = [{name!r}]"
        if lag == 0:
            raise DataError(
                f"{place}: column {name!r} is by its name {label!r} at the same step, which is not "
                f"known when a step is forecast; {cure}"
            )
        values = lag_values(table, name, place)
        expected = history.before(lag)
        both = ~np.isnan(values) & ~np.isnan(expected)
        other = both & (np.abs(values - expected) > _ROUNDING * np.nanstd(history.value))
        if other.sum() > _MOST_REVISED * both.sum():
            row = int(np.argmax(other))
            raise DataError(
                f"{place}: column {name!r} is by its name {label!r} {lag} steps before, but in row "
                f"{row} it is {values[row]:g} where {label!r} was {expected[row]:g} "
                f"({int(other.sum())} such rows); {cure}"
            )


def lag_values(table: Table, name: str, place: Path | str) -> Float64[np.ndarray, "M"]:
    """A column of lags as numbers, with NaN for missing ones.

    Args:
        table: a row for each client and step.
        name: the column.
        place: file or name with which messages begin.

    Raises:
        DataError: a value is text.
    """
    return numbers_of(table[name], "lag", f"{place}: column {name!r}", allow_missing=True)
