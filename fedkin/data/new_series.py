"""Newer tables of series, for predictions: rows with their lags, and the scale of each client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from fedkin.core.errors import DataError
from fedkin.data.files import Table
from fedkin.data.forecast_tables import series_rows, with_lags
from fedkin.data.frequency import Frequency
from fedkin.data.given_lags import lag_name
from fedkin.data.read_series import ReadSeries, read_series, resolved_time
from fedkin.data.series_rows import SeriesRows
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.task_type import LabelScale


@dataclass(frozen=True)
class NewSeries:
    """A newer table of series, whose rows are to be forecast.

    Attributes:
        table: the same rows, with the columns of the lags.
        rows: scale and simple forecasts of each row.
        label: label of each row; NaN where it is not known.
        complete: rows with all lags. The others cannot be forecast.
    """

    table: Table
    rows: SeriesRows
    label: Float64[np.ndarray, "M"]
    complete: Bool[np.ndarray, "M"]

    @property
    def known(self) -> Bool[np.ndarray, "M"]:
        """Rows with a label: those of the past."""
        return ~np.isnan(self.label)

    @property
    def scorable(self) -> Bool[np.ndarray, "M"]:
        """Rows that can be forecast, and whose label is known."""
        return self.complete & self.known


def prepare_new(
    table: Table, task_type: Forecast, place: Path | str, client: str | None = None
) -> NewSeries:
    """Rows of a newer table as samples, in the way in which a run's table was read. A client of the
    run keeps its scale and its unit of MASE. Those of a newcomer come from the table: the scale
    from its labels, and the unit of each row from its rows before (0, which is unknown, until these
    have the errors of a whole season).

    Args:
        table: a row for each client and step: the past, with labels, and steps to be forecast.
        task_type: the task type of the run.
        place: file or name with which messages begin.
        client: client of all rows, if the table has no column of clients; None for a new client.

    Raises:
        DataError: a column is missing, a time cannot be read, or a newcomer has no two different
            labels.
    """
    series = task_type.series
    assert series is not None
    cure = "the model needs the time of each row; add the column, as in the training data"
    time = resolved_time(table, series.time, place, cure)
    if series.client not in table.columns:
        if client is None:
            place = f"{place} (one series, because it has no column {series.client!r})"
        else:
            table = table.assign(**{series.client: client})
    if series.label not in table.columns:
        raise DataError(
            f"{place}: has no column {series.label!r}; a forecast needs the past of each series: "
            f"rows of earlier steps with {series.label}, and rows to be forecast without it"
        )
    frequency = Frequency(series.unit, series.every)
    read = read_series(
        table,
        time,
        label=series.label,
        client=series.client if series.client in table.columns else None,
        place=place,
        frequency=frequency,
    )
    columns = {lag_name(series.label, lag): read.history.before(lag) for lag in series.lags}
    complete = np.ones(len(table), bool)
    for values in columns.values():
        complete &= ~np.isnan(values)
    found = task_type
    if task_type.scales_by_client:
        found = replace(task_type, scales=_scales_with_newcomers(task_type, read, place))
    seasonal_error = _seasonal_errors(task_type, read)
    rows = series_rows(table, read, found, seasonal_error=seasonal_error, place=place)
    return NewSeries(
        table=with_lags(table, series, columns, rows, place=place),
        rows=rows,
        label=read.history.value,
        complete=complete,
    )


def _scales_with_newcomers(
    task_type: Forecast, read: ReadSeries, place: Path | str
) -> dict[str, LabelScale]:
    """The scales of the run's clients, and of the newcomers of a table."""
    everything = np.ones(len(read.names), bool)
    mean, scale, count = read.history.scales(everything)
    scales = dict(task_type.scales)
    for number, name in enumerate(read.of_client):
        if name in scales:
            continue
        if count[number] < 2:
            who = f"client {name} is no client of the run and" if name else "the series"
            raise DataError(
                f"{place}: {who} has {count[number]} rows with a label, but its scale (mean and "
                "standard deviation) comes from its past; add rows of earlier steps, at least two "
                "and better a whole season"
            )
        scales[name] = LabelScale(float(mean[number]), float(scale[number]))
    return scales


def _seasonal_errors(task_type: Forecast, read: ReadSeries) -> Float64[np.ndarray, "M"]:
    """The unit of MASE of each row. No row's unit comes from its label or a later one."""
    assert task_type.series is not None
    of_past = read.history.seasonal_error_before(task_type.series.season)
    of_run = [task_type.seasonal_errors.get(name, np.nan) for name in read.of_client]
    known = np.array(of_run)[read.history.client]
    return np.where(np.isnan(known), of_past, known)
