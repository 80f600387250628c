"""Tables of series as samples of forecasts: lags from each client's own past, a split at one date
for all clients, and a scale of the labels for each client.

Shapes: M rows of the table, m samples.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.object_repr import listed
from fedkin.data.column_checks import check_columns
from fedkin.data.federated import SPLITS
from fedkin.data.files import Table
from fedkin.data.forecast_options import ForecastOptions
from fedkin.data.given_lags import check_given_lags, given_lags, lag_name, lag_values
from fedkin.data.label_statistics import deviation_of
from fedkin.data.read_series import ReadSeries, read_series, resolved_time
from fedkin.data.series_rows import SeriesRows
from fedkin.data.split_column import NUMBERED_SPLITS, split_numbers
from fedkin.data.time_steps import TimeSteps
from fedkin.task_types.forecast import CLIENT, Forecast, Series
from fedkin.task_types.task_type import LabelScale

_log = logging.getLogger("fedkin")
MADE_SPLIT = "split of the series"
_NEEDED = "the model needs it"


@dataclass(frozen=True)
class PreparedSeries:
    """Samples of a forecast.

    Attributes:
        table: a row for each sample, with the columns of the lags, and with ``split``.
        lags: the columns of the lags, those of the table and those that the reader made.
        split: the column that says train, validation or test.
        rows: scale and simple forecasts of each sample.
        task_type: the task type with the series and the scales of the clients.
    """

    table: Table
    lags: tuple[str, ...]
    split: str
    rows: SeriesRows
    task_type: Forecast


def prepare(
    table: Table,
    options: ForecastOptions,
    task_type: Forecast,
    *,
    label: Any,
    client: Any,
    features: Sequence[Any] | None,
    unused: Sequence[Any] = (),
    split: Any,
    test_share: float,
    place: Path | str,
) -> PreparedSeries:
    """The samples of a table of series.

    Args:
        table: a row for each client and step.
        options: time, season, lags and dates of the split.
        task_type: the loss, without statistics.
        label, client: columns of the label and of the client.
        features: columns of the features; None for all others.
        unused: columns that are left out. A wanted lag of such a name is made.
        split: column that says train, validation or test; None to split at a date.
        test_share: share of test samples, at the end; it applies without a column and a date.
        place: file or name with which messages begin.

    Raises:
        DataError: a time cannot be read, clients have different frequencies, a client has two rows
            at one step, a test sample is earlier than a training sample, or a column that is named
            like a lag of the label is not this lag.
        ConfigError: options contradict each other.
    """
    time = resolved_time(table, options.time, place)
    check_columns(table, [label, client, *time], place)
    read = read_series(
        table,
        time,
        label=label,
        client=client,
        place=place,
        frequency=options.frequency,
        is_declared=True,
    )
    season = options.season or read.time.frequency.season
    lags = options.lags_with(season)
    given = given_lags(table, label, features=features, lags=lags, unused=unused)
    check_given_lags(table, given, read.history, label=label, place=place)
    # A lag that the table has already is taken as it is.
    made = [lag for lag in lags if lag_name(label, lag) not in given]
    columns = {lag_name(label, lag): read.history.before(lag) for lag in made}
    kept = ~np.isnan(read.history.value)
    for values in columns.values():
        kept &= ~np.isnan(values)
    part = _parts(
        table, read, kept, options=options, split=split, test_share=test_share, place=place
    )
    kept &= _of_trained_clients(read, kept & (part == "train"), lags, label=label, place=place)
    _check_order(read, part, kept, split=split, place=place)
    _log_left_out(kept, lags, place)
    series = Series(
        time=tuple(map(str, time)),
        unit=read.time.frequency.unit,
        every=read.time.frequency.every,
        season=season,
        lags=tuple(made),
        given_lags=tuple(given),
        label=str(label),
        client=str(client),
        label_scale=options.label_scale,
    )
    training = part == "train"
    found = _with_scales(
        task_type, series, read, training=training, kept=kept, test_from=options.test_from
    )
    of_clients = [found.seasonal_errors.get(name, 0.0) for name in read.of_client]
    seasonal_error = np.array(of_clients)[read.history.client]
    rows = series_rows(table, read, found, seasonal_error=seasonal_error, place=place)
    samples = with_lags(table, series, columns, rows, place=place)
    samples = samples.assign(**{MADE_SPLIT: part})[kept].reset_index(drop=True)
    return PreparedSeries(
        table=samples,
        lags=(*given, *columns),
        split=MADE_SPLIT,
        rows=rows.select(kept),
        task_type=found,
    )


def _parts(
    table: Table,
    read: ReadSeries,
    kept: Bool[np.ndarray, "M"],
    *,
    options: ForecastOptions,
    split: Any,
    test_share: float,
    place: Path | str,
) -> np.ndarray:
    """The part of each row: train, validation or test."""
    if split is not None:
        if options.test_from is not None or options.validation_from is not None:
            raise ConfigError(
                f"{place}: test_from and validation_from do not apply, because the column {split} "
                f"divides the samples; leave them out, or leave out the column: drop = [{split!r}]"
            )
        column = table[split].to_numpy()
        text = column.astype(str) if column.dtype == object else column
        return np.array(NUMBERED_SPLITS)[split_numbers(np.asarray(text), place)]
    frequency = read.time.frequency
    moment = read.time.moment
    if options.test_from is not None:
        test_from = frequency.moment_of(options.test_from, "test_from")
        begins = str(options.test_from)
    else:
        cut = _cut(read.time.step[kept], test_share)
        test_from = _moment_of_step(read.time, cut)
        begins = frequency.text(cut)
    part = np.where(moment >= test_from, "test", "train").astype("<U10")
    if options.validation_from is not None:
        validation_from = frequency.moment_of(options.validation_from, "validation_from")
        if validation_from >= test_from:
            raise ConfigError(
                f"{place}: validation_from = {options.validation_from} must be before the test "
                f"period, which begins at {begins}"
            )
        part[(moment >= validation_from) & (moment < test_from)] = "validation"
    _check_periods(read, part, options=options, test_begins=begins, place=place)
    return part


def _check_periods(
    read: ReadSeries,
    part: np.ndarray,
    *,
    options: ForecastOptions,
    test_begins: str,
    place: Path | str,
) -> None:
    """Raise ConfigError if no row is in the training period, or none in a test period whose date
    is given."""
    training_ends = test_begins if options.validation_from is None else options.validation_from
    option = "test_from" if options.validation_from is None else "validation_from"
    step = read.time.step
    frequency = read.time.frequency
    rows = f"{frequency.text(int(step.min()))} to {frequency.text(int(step.max()))}"
    begin = f"{place}: column {options.time[0]!r}"
    if not (part == "train").any():
        raise ConfigError(
            f"{begin}: no train sample: the table is from {rows}, and the training period ends "
            f"before {training_ends}; add earlier rows, or choose another {option}"
        )
    if options.test_from is not None and not (part == "test").any():
        raise ConfigError(
            f"{begin}: no test sample: the table is from {rows}, and the test period begins at "
            f"{test_begins}; add later rows, or choose another test_from"
        )


def _moment_of_step(time: TimeSteps, step: int) -> int:
    """The moment of the first row at or after a step."""
    later = time.moment[time.step >= step]
    return int(later.min() if len(later) else time.moment.max() + 1)


def _cut(step: Int64[np.ndarray, "m"], test_share: float) -> int:
    """The first step of the test period, so that at most a share of the samples is for testing, but
    at least one step."""
    if not len(step):
        return 0
    if test_share <= 0:
        return int(step.max()) + 1
    distinct, count = np.unique(step, return_counts=True)
    from_here = np.cumsum(count[::-1])[::-1]
    # The product is rounded, since a share of 1 - 0.8 is 0.19999999999999996.
    most = np.round(test_share * len(step), 6)
    allowed = np.flatnonzero(from_here <= most)
    return int(distinct[allowed[0] if len(allowed) else -1])


def _log_left_out(kept: Bool[np.ndarray, "M"], lags: Sequence[int], place: Path | str) -> None:
    """Log how many rows do not become samples, if there are any."""
    if kept.all():
        return
    _log.info(
        "%s: left out %d of %d rows, which have no label or lack a value at one of the lags %s",
        place,
        int((~kept).sum()),
        len(kept),
        listed(lags),
    )


def _of_trained_clients(
    read: ReadSeries,
    training: Bool[np.ndarray, "M"],
    lags: Sequence[int],
    *,
    label: Any,
    place: Path | str,
) -> Bool[np.ndarray, "M"]:
    """The rows of clients with a training sample. Warns of the other clients."""
    count = np.bincount(read.history.client[training], minlength=len(read.of_client))
    short = [read.of_client[number] for number in np.flatnonzero(count == 0)]
    if len(short) == len(read.of_client):
        raise DataError(
            f"{place}: column {str(label)!r}: no client has a training sample: each needs values "
            f"at the lags {listed(lags)} before its first one, within the training period; add "
            "rows of earlier steps, or choose shorter lags, such as lags = [1], or a later "
            "test_from"
        )
    if short:
        _log.warning(
            "%s: left out %d of %d clients, whose training period is shorter than the lags %s: %s; "
            "choose shorter lags to keep them",
            place,
            len(short),
            len(read.of_client),
            listed(lags),
            listed(short),
        )
    return count[read.history.client] > 0


def _check_order(
    read: ReadSeries,
    part: np.ndarray,
    kept: Bool[np.ndarray, "M"],
    *,
    split: Any,
    place: Path | str,
) -> None:
    """Raise DataError for a sample that is earlier than one of an earlier part."""
    moment = read.time.moment
    present = [name for name in SPLITS if (kept & (part == name)).any()]
    for earlier, later in zip(present, present[1:], strict=False):
        of_earlier = kept & (part == earlier)
        last = moment[of_earlier].max()
        wrong = kept & (part == later) & (moment <= last)
        if wrong.any():
            row = int(np.argmax(wrong))
            frequency = read.time.frequency
            until = frequency.text(int(read.time.step[of_earlier].max()))
            raise DataError(
                f"{place}: column {split!r} makes a {later} sample of row {row} (client "
                f"{read.names[row]}, {frequency.text(int(read.time.step[row]))}), but there are "
                f"{earlier} samples until {until}: a model would learn from the future; "
                f"divide all clients at one date: test_from = {until!r}"
            )


def _with_scales(
    task_type: Forecast,
    series: Series,
    read: ReadSeries,
    *,
    training: Bool[np.ndarray, "M"],
    kept: Bool[np.ndarray, "M"],
    test_from: Any,
) -> Forecast:
    """The task type with the scales of all clients that have samples, or with the pooled scale, and
    with the unit of MASE of each client."""
    present = np.unique(read.history.client[kept])
    seasonal_error = read.history.seasonal_error(series.season, training)
    errors = {read.of_client[number]: float(seasonal_error[number]) for number in present}
    begins = ""
    if test_from is not None:
        begins = read.time.frequency.date_text(test_from, "test_from")
    task_type = replace(task_type, series=series, seasonal_errors=errors, test_from=begins)
    if series.label_scale == CLIENT:
        mean, scale, _ = read.history.scales(training)
        scales = {
            read.of_client[number]: LabelScale(float(mean[number]), float(scale[number]))
            for number in present
        }
        return replace(task_type, scales=scales)
    of_training = read.history.value[training & kept]
    label = LabelScale(float(of_training.mean()), deviation_of(of_training))
    return replace(task_type, label=label)


def series_rows(
    table: Table,
    read: ReadSeries,
    task_type: Forecast,
    *,
    seasonal_error: Float64[np.ndarray, "M"],
    place: Path | str,
) -> SeriesRows:
    """The scale and the simple forecasts of each row.

    Args:
        table: the table, which may have columns of lags.
        read: the same table as series.
        task_type: the task type with the scales of the clients.
        seasonal_error: the unit of MASE of each row; 0 if it is unknown.
        place: file or name with which messages begin.
    """
    series = task_type.series
    assert series is not None
    known = [task_type.scales.get(name, task_type.label) for name in read.of_client]
    mean = np.array([one.mean for one in known])[read.history.client]
    scale = np.array([one.scale for one in known])[read.history.client]
    last = _or_given(read.history.last(), table, lag_name(series.label, 1), place)
    seasonal = _or_given(
        read.history.season_before(series.season),
        table,
        lag_name(series.label, series.season),
        place,
    )
    # Without a past, the simple forecast is the mean.
    last = np.where(np.isnan(last), mean, last)
    seasonal = np.where(np.isnan(seasonal), last, seasonal)
    return SeriesRows(
        mean=mean,
        scale=scale,
        seasonal_error=seasonal_error,
        seasonal_naive=seasonal,
        last_value=last,
    )


def _or_given(
    values: Float64[np.ndarray, "M"], table: Table, name: str, place: Path | str
) -> Float64[np.ndarray, "M"]:
    """Past values, and where the rows have none, those of a column of lags of the table."""
    if name not in table.columns:
        return values
    return np.where(np.isnan(values), lag_values(table, name, place), values)


def with_lags(
    table: Table,
    series: Series,
    columns: dict[str, Float64[np.ndarray, "M"]],
    rows: SeriesRows,
    *,
    place: Path | str,
) -> Table:
    """The table with the columns of the lags. Lags are scaled as the labels of the client are.

    Args:
        table: the table.
        series: how the table becomes samples.
        columns: the lags that the reader made, by name, in units of the label.
        rows: scale of each row.
        place: file or name with which messages begin.

    Raises:
        DataError: a column of a lag is missing or has text.
    """
    check_columns(table, series.given_lags, place, dict.fromkeys(series.given_lags, _NEEDED))
    given = {name: lag_values(table, name, place) for name in series.given_lags}
    lags = {**given, **columns}
    if series.label_scale == CLIENT:
        lags = {name: (values - rows.mean) / rows.scale for name, values in lags.items()}
    return table.assign(**lags)
