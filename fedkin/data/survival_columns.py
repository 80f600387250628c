"""The times and the events of patients as numbers, with messages about values that are impossible.

Shapes: n patients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from fedkin.core.errors import DataError
from fedkin.core.object_repr import listed, of_client
from fedkin.data.number_columns import read_numbers


def check_times(times: Float64[np.ndarray, "n"], place: Path | str, clients: Any = None) -> None:
    """Raise DataError for a time that is negative or not finite.

    Args:
        times: the times of all patients.
        place: file or name with which the message begins, and the column of a table.
        clients: client of each patient, for the message; None if it is unknown.
    """
    wrong = ~(np.isfinite(times) & (times >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: the time in row {row}{of_client(clients, row)} is {times[row]:g} "
            f"({int(wrong.sum())} such rows); every time must be a finite number of at least 0, "
            "counted from the start of the observation; leave out these rows, or correct them"
        )


def events_of(
    values: Any,
    place: Path | str,
    clients: Any = None,
    needed: Bool[np.ndarray, "n"] | None = None,
) -> Bool[np.ndarray, "n"]:
    """Whether the event of each patient was observed.

    Args:
        values: 1 or 0, or True or False, for each patient: an array, a column of a table, or a
            list.
        place: file or name with which messages begin, and the column of a table.
        clients: client of each patient, for messages; None if it is unknown.
        needed: the patients that are used; None for all. The others may have any value.

    Raises:
        DataError: a value is missing, text or another number; the message says which values there
            are.
    """
    import pandas as pd

    column = pd.Series(np.asarray(values).ravel())
    numbers, missing, _ = read_numbers(column)
    used = np.ones(len(column), bool) if needed is None else needed
    missing = missing & used
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{place}: the event in row {row}{of_client(clients, row)} is missing "
            f"({int(missing.sum())} such rows); write 0 for a patient without the event, or leave "
            "out these rows"
        )
    wrong = used & ~np.isin(numbers, (0, 1))
    if wrong.any():
        raise DataError(_wrong_event(column, int(np.argmax(wrong)), place, clients))
    return numbers == 1


def _wrong_event(column: Any, row: int, place: Path | str, clients: Any) -> str:
    """The message about an event that is neither 1 nor 0, with the values of the column.

    Args:
        column: a Series with the events of all patients.
        row: the first wrong one.
        place, clients: as in ``events_of``.
    """
    found = sorted(column.dropna().unique().tolist(), key=str)
    wrong = column.tolist()[row]
    return (
        f"{place}: the event in row {row}{of_client(clients, row)} is {wrong!r}, and the values "
        f"here are {listed([repr(value) for value in found])}; the event must be 1 (it was "
        "observed) or 0 (it was not); compare with the value of an observed event, such as "
        f"table[column] = (table[column] == {wrong!r}).astype(int)"
    )
