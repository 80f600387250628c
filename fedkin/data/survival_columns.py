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


def events_of(values: Any, place: Path | str, clients: Any = None) -> Bool[np.ndarray, "n"]:
    """Whether the event of each patient was observed.

    Args:
        values: 1 or 0, or True or False, for each patient: an array, a column of a table, or a
            list.
        place: file or name with which messages begin, and the column of a table.
        clients: client of each patient, for messages; None if it is unknown.

    Raises:
        DataError: a value is missing, text or another number; the message says which values there
            are.
    """
    import pandas as pd

    column = pd.Series(np.asarray(values).ravel())
    numbers, missing, text = read_numbers(column)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{place}: the event in row {row}{of_client(clients, row)} is missing "
            f"({int(missing.sum())} such rows); write 0 for a patient without the event, or leave "
            "out these rows"
        )
    wrong = text | ~np.isin(numbers, (0, 1))
    if not wrong.any():
        return numbers == 1
    row = int(np.argmax(wrong))
    found = sorted(column.unique().tolist(), key=str)
    # The cure names one of the values, which may not be the one that stands for the event.
    example = next((value for value in found if value not in (0, 1)), found[0])
    raise DataError(
        f"{place}: the event in row {row}{of_client(clients, row)} is {column.iloc[row]!r}; it must "
        "be 1 (the event was observed) or 0 (it was not), and the values here are "
        f"{listed([repr(value) for value in found])}; compare with the value of an observed event: "
        f"table[column] = (table[column] == {example!r}).astype(int)"
    )
