"""The time of each row of a table, as a whole number of steps: months, days, hours, or steps that
the table counts itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.object_repr import of_client
from fedkin.data.files import Table
from fedkin.data.frequency import DAY, MONTHS, QUARTER, SECONDS, STEPS, Frequency

# A date with a time of day and the offset of its time zone.
_OFFSET = re.compile(r"^(.*[T ]\d{2}[\d:.,]*) ?(?:Z|[+-]\d{2}(?::?\d{2})?)$")
_DAYS_OF_MONTH = 365.25 / 12
_CHANGED_DAYS = 4


@dataclass(frozen=True)
class TimeSteps:
    """The step of each row of a table, and the length of a step.

    Clients may have their rows on different days of a step, such as weeks that end on other days.
    So whether a row is at or after a date is read from its moment, not from its step.

    Attributes:
        step: the step of each row.
        frequency: the length of a step.
        moment: the time of each row: seconds since 1970, or the number of a table that counts steps
            itself.
    """

    step: Int64[np.ndarray, "M"]
    frequency: Frequency
    moment: Int64[np.ndarray, "M"]


def read_steps(
    table: Table,
    time: Sequence[str],
    clients: Any,
    place: Path | str,
    frequency: Frequency | None = None,
    is_declared: bool = False,
) -> TimeSteps:
    """The step of each row of a table.

    Args:
        table: a row for each client and step.
        time: column of dates or of numbers; or columns of year and month, year and quarter, or
            year, month and day. The time zone of a date does not count: 08:00+05:30 is 08:00.
        clients: client of each row.
        place: file or name with which messages begin.
        frequency: length of a step; None for the commonest distance between a client's rows.
        is_declared: whether ``frequency`` is an option of the user, which must be this commonest
            distance. Otherwise a run has found it, and a newer table may have few rows.

    Raises:
        DataError: a time cannot be read or is missing, or clients have different frequencies.
    """
    if frequency is not None and is_declared:
        _check_declared(table, time, clients, place=place, declared=frequency)
    units = _units(
        table, time, clients, place=place, unit=None if frequency is None else frequency.unit
    )
    names = np.asarray(clients)
    if frequency is None:
        frequency = _common_frequency(units, names, time, place)
    elif units.unit != frequency.unit:
        raise DataError(
            f"{place}: column {time[0]!r} counts {units.unit}, but in the training data it counts "
            f"{frequency.unit}; write the time as in the training data"
        )
    step = units.value // frequency.every
    # Distances within a client must be whole steps.
    rest = units.value % frequency.every
    for rows in rows_by_client(names).values():
        odd = rest[rows] != rest[rows[0]]
        if odd.any():
            row = int(rows[np.argmax(odd)])
            raise DataError(
                f"{place}: column {time[0]!r}, row {row}{of_client(names, row)} is "
                f"{_cell(table, time, row)}, which is no whole number of steps ({frequency}) from "
                f"the client's first row, {_cell(table, time, int(rows[0]))}; bring all rows to "
                "one frequency, such as with pandas' resample"
            )
    return TimeSteps(step, frequency, units.moment)


def rows_by_client(names: np.ndarray) -> dict[str, Int64[np.ndarray, "_"]]:
    """The rows of each client, by its name."""
    import pandas as pd

    return pd.Series(names).groupby(names, sort=True).indices  # type: ignore[return-value]


@dataclass(frozen=True)
class _Units:
    """The time of each row in units, and its moment (``TimeSteps.moment``)."""

    value: Int64[np.ndarray, "M"]
    unit: str
    moment: Int64[np.ndarray, "M"]


def _units(
    table: Table, time: Sequence[str], clients: Any, *, place: Path | str, unit: str | None
) -> _Units:
    """The time of each row as a whole number of units; ``unit`` is given, or None."""
    if len(time) > 1:
        return _of_several_columns(table, time, clients, place)
    column = table[time[0]]
    _refuse_missing(column, time[0], clients, place)
    numbers = _whole_numbers(column)
    if numbers is not None:
        if _are_months(numbers) and unit != STEPS:
            return _of_months(numbers // 100 * 12 + numbers % 100 - 1)
        return _Units(numbers, STEPS, numbers)
    return _of_dates(_dates(column, time[0], clients, place), unit)


def _of_several_columns(
    table: Table, time: Sequence[str], clients: Any, place: Path | str
) -> _Units:
    """The time of columns of year and month, year and quarter, or year, month and day."""
    import pandas as pd

    parts = []
    for name in time:
        _refuse_missing(table[name], name, clients, place)
        numbers = _whole_numbers(table[name])
        if numbers is None:
            raise DataError(
                f"{place}: column {name!r} of the time must be whole numbers, since time names "
                f"several columns ({', '.join(time)}); or name one column of dates: time = 'date'"
            )
        parts.append(numbers)
    if len(time) == 2:
        quarters = "quarter" in time[1].lower()
        most = 4 if quarters else 12
        _check_range(parts[1], most, time[1], clients=clients, place=place)
        return _of_months(parts[0] * 12 + (parts[1] - 1) * (3 if quarters else 1))
    if len(time) > 3:
        raise ConfigError(
            f"time must be one column, or columns of year and month, or of year, month and day; "
            f"got {list(time)}"
        )
    columns = dict(zip(("year", "month", "day"), parts, strict=True))
    dates = pd.to_datetime(pd.DataFrame(columns), errors="coerce")
    _refuse_unread(dates, table[time[2]], time[2], clients=clients, place=place)
    return _of_dates(dates, None)


def _check_range(
    numbers: Int64[np.ndarray, "M"], most: int, name: str, *, clients: Any, place: Path | str
) -> None:
    """Raise DataError for a month or a quarter that does not exist."""
    wrong = (numbers < 1) | (numbers > most)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: column {name!r}, row {row}{of_client(clients, row)} is {numbers[row]}, but "
            f"must be 1 to {most}; or name one column of dates: time = 'date'"
        )


def _whole_numbers(column: Any) -> Int64[np.ndarray, "M"] | None:
    """A column as whole numbers; None if it holds something else."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return None
    numbers = column.to_numpy(np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.rint(numbers)).any():
        return None
    return numbers.astype(np.int64)


def _are_months(numbers: Int64[np.ndarray, "M"]) -> bool:
    """Whether numbers are months such as 201906."""
    month = numbers % 100
    year = numbers // 100
    return bool(((month >= 1) & (month <= 12) & (year >= 1000) & (year <= 2999)).all())


def _dates(column: Any, name: str, clients: Any, place: Path | str) -> Any:
    """A column as dates without a time zone, in the local time of that zone."""
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if pd.api.types.is_datetime64_any_dtype(column):
        return column.dt.tz_localize(None)
    text = column.astype(str).str.strip()
    quarters = text.str.fullmatch(QUARTER)
    if quarters.all():
        return pd.PeriodIndex(text.str.replace(r"[- ]", "", regex=True), freq="Q").to_timestamp()
    # Text keeps its local time, as a column of dates with a zone does.
    text = text.str.replace(_OFFSET, r"\1", regex=True)
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    _refuse_unread(dates, column, name, clients=clients, place=place)
    return dates


def _of_dates(dates: Any, unit: str | None) -> _Units:
    """Dates in months if all are the same day of a month, otherwise in seconds."""
    import pandas as pd

    index = pd.DatetimeIndex(dates)
    day = index.day.to_numpy()
    whole_days = bool((index == index.normalize()).all())
    same_day = day.min() == day.max() and day.max() <= 28
    seconds = index.to_numpy().astype("datetime64[s]").astype(np.int64)
    if unit == MONTHS or (
        unit != SECONDS and whole_days and (same_day or bool(index.is_month_end.all()))
    ):
        months = (index.year * 12 + index.month - 1).to_numpy(np.int64)
        return _Units(months, MONTHS, seconds)
    return _Units(seconds, SECONDS, seconds)


def _of_months(months: Int64[np.ndarray, "M"]) -> _Units:
    """Months as numbers since year 0; the moment of a month is its beginning."""
    since_1970 = (months - 1970 * 12).astype("timedelta64[M]")
    dates = np.datetime64("1970-01") + since_1970
    return _Units(months, MONTHS, dates.astype("datetime64[s]").astype(np.int64))


def _refuse_missing(column: Any, name: str, clients: Any, place: Path | str) -> None:
    """Raise DataError for a missing time."""
    missing = column.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{place}: column {name!r}, row {row}{of_client(clients, row)} has no time "
            f"({int(missing.sum())} such rows); fill it in, or leave out these rows"
        )


def _refuse_unread(dates: Any, column: Any, name: str, *, clients: Any, place: Path | str) -> None:
    """Raise DataError for a date that was not read."""
    unread = np.asarray(dates.isna())
    if unread.any():
        row = int(np.argmax(unread))
        raise DataError(
            f"{place}: column {name!r}, row {row}{of_client(clients, row)} is "
            f"{column.iloc[row]!r}, which cannot be read as a date ({int(unread.sum())} such "
            "rows); write dates like 2018-01-31, or read them by their format: "
            f'table[{name!r}] = pandas.to_datetime(table[{name!r}], format="%d/%m/%Y")'
        )


def _spoken(frequency: Frequency) -> str:
    """A frequency for messages. Months are counted in days if another client has days."""
    if frequency.unit == SECONDS and frequency.every in range(28 * DAY, 32 * DAY, DAY):
        return "one month"
    return str(frequency)


def _distances(units: _Units, names: np.ndarray) -> dict[str, int]:
    """The commonest distance between neighbouring rows of each client that has three rows at
    different times, in units."""
    found = {}
    for client, rows in rows_by_client(names).items():
        value = np.unique(units.value[rows])
        if len(value) > 2:
            distances, counts = np.unique(np.diff(value), return_counts=True)
            found[client] = int(distances[np.argmax(counts)])
    return found


def _check_declared(
    table: Table, time: Sequence[str], clients: Any, *, place: Path | str, declared: Frequency
) -> None:
    """Raise DataError for a client whose rows have another distance than the declared one."""
    # Days are counted where they can be, since in months all days of a month would be one step.
    unit = declared.unit if declared.unit != MONTHS else None
    units = _units(table, time, clients, place=place, unit=unit)
    for client, distance in _distances(units, np.asarray(clients)).items():
        found = Frequency(units.unit, distance)
        if found != declared and not _is_in_months(found, declared):
            raise DataError(
                f"{place}: column {time[0]!r}: client {client} has a row every {_spoken(found)}, "
                f"but frequency says {declared}, for all clients; bring its rows to this "
                "frequency, such as with pandas' resample, or correct frequency"
            )


def _is_in_months(found: Frequency, declared: Frequency) -> bool:
    """Whether a distance in days is one of so many months. The day of a month may change."""
    if declared.unit != MONTHS or found.unit != SECONDS:
        return False
    return abs(found.every / DAY - _DAYS_OF_MONTH * declared.every) <= _CHANGED_DAYS


def _common_frequency(
    units: _Units, names: np.ndarray, time: Sequence[str], place: Path | str
) -> Frequency:
    """The commonest distance between neighbouring rows of a client, which all clients must have."""
    of_clients = _distances(units, names)
    if not of_clients:
        raise DataError(
            f"{place}: no client has three rows at different times ({', '.join(time)}), but a "
            "forecast needs the past of each series"
        )
    distances, counts = np.unique(list(of_clients.values()), return_counts=True)
    common = Frequency(units.unit, int(distances[np.argmax(counts)]))
    others = [client for client, distance in of_clients.items() if distance != common.every]
    if others:
        other = Frequency(units.unit, of_clients[others[0]])
        raise DataError(
            f"{place}: mixed frequencies: most clients have steps of {_spoken(common)} "
            f"(column {time[0]!r}), but client {others[0]} has steps of {_spoken(other)} "
            f"({len(others)} such clients); bring all clients to one frequency, such as with "
            "pandas' resample, or leave these clients out"
        )
    return common


def _cell(table: Table, time: Sequence[str], row: int) -> str:
    """The time of a row as the table has it."""
    return " ".join(str(table[name].iloc[row]) for name in time)
