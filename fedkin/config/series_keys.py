"""The keys of [samples] by which the rows of all sites' tables become samples of a forecast."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from fedkin.config.schema import Place, Values
from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import listed
from fedkin.data.file_samples import CLIENT as CLIENT_COLUMN
from fedkin.data.file_samples import LABEL as LABEL_COLUMN
from fedkin.data.forecast_options import ForecastOptions
from fedkin.data.given_lags import lag_name
from fedkin.task_types.forecast import CLIENT, Forecast, Series

# They have the names and meanings that they have in [data] of a simulation.
SERIES_KEYS = (
    "label",
    "client",
    "time",
    "frequency",
    "season",
    "lags",
    "test_from",
    "label_scale",
)
# Why a key is required: what no site can find in its own table.
_REQUIRED = {
    "time": 'the column with the time of each row; for example time = "date"',
    "frequency": (
        'the length of a step, which must be the same at all sites; for example frequency = "month"'
    ),
    "features": (
        "the columns of a sample, in order, with the lags after the others; for example features = "
        '["price", "sales_lag1"]'
    ),
    "test_from": (
        "the date of the first test sample of all clients, since a site does not know the rows of "
        'the others; for example test_from = "2019-01"'
    ),
}

_POOLED = (
    "{!r} needs the labels of all clients in one place; here each series is scaled by its own "
    "past, so remove label_scale"
)


def check_series(samples: Any) -> None:
    """Check the keys of forecasts in a section [samples].

    Args:
        samples: the section, with its other keys checked.

    Raises:
        ValueError: a key is missing, impossible, or does not apply. The message begins with it.
    """
    if samples.task != Forecast.name:
        for key in SERIES_KEYS:
            if getattr(samples, key) is not None:
                raise ValueError(
                    f'{key}: applies to forecasts only; set task = "forecast", or remove it'
                )
        return
    for key, why in _REQUIRED.items():
        if getattr(samples, key) is None:
            raise ValueError(f"{key}: is required for forecasts: {why}")
    if samples.label_scale not in (None, CLIENT):
        raise ValueError(f"label_scale: {_POOLED.format(samples.label_scale)}")
    try:
        options = series_options(samples)
        assert options.frequency is not None
        options.frequency.moment_of(options.test_from, "test_from")
    except ConfigError as error:
        key, _, words = str(error).partition(" ")
        raise ValueError(f"{key}: {words}") from error
    _check_features(samples)


def series_options(samples: Any) -> ForecastOptions:
    """How rows become samples of a forecast.

    Args:
        samples: the section [samples] of a forecast.

    Raises:
        ConfigError: a value is impossible.
    """
    found = ForecastOptions.of(
        Forecast.name,
        time=samples.time,
        season=samples.season,
        lags=samples.lags,
        test_from=samples.test_from,
        label_scale=samples.label_scale,
        frequency=samples.frequency,
    )
    assert found is not None
    return found


def with_series(task_type: Forecast, samples: Any) -> Forecast:
    """The task type of a forecast with the facts about series that all sites share. No scale of a
    client is among them.

    Args:
        task_type: task type and loss.
        samples: the section [samples].
    """
    options = series_options(samples)
    assert options.frequency is not None
    season = options.season or options.frequency.season
    lags = options.lags_with(season)
    label = label_column(samples)
    series = Series(
        time=options.time,
        unit=options.frequency.unit,
        every=options.frequency.every,
        season=season,
        lags=lags,
        given_lags=_further_lags(samples, label, lags),
        label=label,
        client=client_column(samples),
    )
    return replace(task_type, series=series, test_from=str(options.test_from))


def label_column(samples: Any) -> str:
    """The column of the label in the tables of all sites."""
    return LABEL_COLUMN if samples.label is None else samples.label


def client_column(samples: Any) -> str:
    """The column of the client in the tables of all sites."""
    return CLIENT_COLUMN if samples.client is None else samples.client


def _check_features(samples: Any) -> None:
    """Raise ValueError if a lag is no feature."""
    label = label_column(samples)
    options = series_options(samples)
    assert options.frequency is not None
    lags = options.lags_with(options.season or options.frequency.season)
    missing = [name for lag in lags if (name := lag_name(label, lag)) not in samples.features]
    if missing:
        raise ValueError(
            f"features: lacks the lags {listed(missing)} of label = {label!r}; add them after the "
            "other features, or correct lags"
        )


def _further_lags(samples: Any, label: str, lags: tuple[int, ...]) -> tuple[str, ...]:
    """The features that are other lags, which the sites' tables have."""
    of_label = re.compile(re.escape(label) + r"_lag\d+")
    made = {lag_name(label, lag) for lag in lags}
    return tuple(
        name
        for name in samples.features
        if of_label.fullmatch(name) is not None and name not in made
    )


def check_series_of_peer(data: Values, place: Place) -> None:
    """Check that the section [data] of a peer says what a peer cannot find in its own table.

    Args:
        data: the section.
        place: function that turns ``section.key`` into its name in messages.

    Raises:
        ConfigError: a key of forecasts is missing, or scales labels by those of all peers.
    """
    if data.get("task") != Forecast.name:
        return
    for key in ("frequency", "test_from"):
        if data.get(key) is None:
            raise ConfigError(
                f"{place(f'data.{key}')}: is required for forecasts: {_REQUIRED[key]}"
            )
    if data.get("label_scale") not in (None, CLIENT):
        raise ConfigError(f"{place('data.label_scale')}: {_POOLED.format(data['label_scale'])}")
