"""A table as series: the client, the step and the label of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.data.client_ids import client_ids, whole_ids
from fedkin.data.column_checks import check_columns
from fedkin.data.files import Table
from fedkin.data.frequency import Frequency
from fedkin.data.label_statistics import place_of
from fedkin.data.number_columns import numbers_of
from fedkin.data.series_history import SeriesHistory
from fedkin.data.time_steps import TimeSteps, read_steps

UNNAMED = ""  # no client has a blank name


@dataclass(frozen=True)
class ReadSeries:
    """A table as series."""

    history: SeriesHistory
    names: np.ndarray  # client of each row, as text
    of_client: tuple[str, ...]  # name of each client
    time: TimeSteps


def read_series(
    table: Table,
    time: Sequence[Any],
    *,
    label: Any,
    client: Any,
    place: Path | str,
    frequency: Frequency | None = None,
    is_declared: bool = False,
) -> ReadSeries:
    """A table as series, with its time and its labels.

    Args:
        table: a row for each client and step.
        time, label: columns of the table.
        client: column of the clients; None for one series without a name (``UNNAMED``).
        place: file or name with which messages begin.
        frequency, is_declared: length of a step, as of ``read_steps``.

    Raises:
        DataError: a time or a label cannot be read, or a client has two rows at one step.
    """
    names = np.full(len(table), UNNAMED)
    if client is not None:
        owners = whole_ids(client_ids(table[client], place, str(client)))
        names = np.array([str(name) for name in owners])
    steps = read_steps(
        table, time, names, place=place, frequency=frequency, is_declared=is_declared
    )
    of_label = place_of("label", place, {"label": str(label)})
    values = numbers_of(table[label], "label", of_label, names, allow_missing=True)
    distinct, number = np.unique(names, return_inverse=True)
    history = SeriesHistory(number.reshape(-1).astype(np.int64), steps.step, values)
    history.check(names, steps.frequency, place)
    return ReadSeries(history, names, tuple(distinct.tolist()), steps)


def resolved_time(
    table: Table, names: Sequence[str], place: Path | str, cure: str = "name it with time="
) -> list[Any]:
    """Columns of the time as the table names them.

    Args:
        table: the table.
        names: the columns, as text.
        place: file or name with which the message begins.
        cure: advice for a column that does not exist.

    Raises:
        DataError: a column does not exist.
    """
    of_table = {str(name): name for name in table.columns}
    check_columns(_Names(list(of_table)), names, place, dict.fromkeys(names, cure))
    return [of_table[name] for name in names]


@dataclass(frozen=True)
class _Names:
    """The columns of a table, without rows."""

    columns: list[str]
