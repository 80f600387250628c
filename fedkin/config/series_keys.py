"""The keys of [samples] that say how rows of a table become samples of a forecast. They are the
same for all sites.
"""

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

# The names and meanings are those of [data] in a simulation.
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
# The keys that a forecast needs, and what each says. A site cannot find it in its own table.
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


def _refusal_of_scale(label_scale: Any) -> str:
    """The message about a scale of labels that needs the labels of all clients."""
    return (
        f"{label_scale!r} needs the labels of all clients in one place; here each series is scaled "
        "by its own past, so remove label_scale"
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
    for key, meaning in _REQUIRED.items():
        if getattr(samples, key) is None:
            raise ValueError(f"{key}: is required for forecasts: {meaning}")
    if samples.label_scale not in (None, CLIENT):
        raise ValueError(f"label_scale: {_refusal_of_scale(samples.label_scale)}")
    try:
        options = series_options(samples)
        assert options.frequency is not None
        options.frequency.moment_of(options.test_from, "test_from")
    except ConfigError as error:
        # The message begins with the key, such as "season must be".
        key, _, message = str(error).partition(" ")
        raise ValueError(f"{key}: {message}") from error
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
    """The task type of a forecast, with the facts about series that all sites share. The scales of
    the clients are not among them.

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
    test_from = options.frequency.date_text(options.test_from, "test_from")
    return replace(task_type, series=series, test_from=test_from)


def label_column(samples: Any) -> str:
    """The column of the label in the tables of all sites."""
    return LABEL_COLUMN if samples.label is None else samples.label


def client_column(samples: Any) -> str:
    """The column of the client in the tables of all sites."""
    return CLIENT_COLUMN if samples.client is None else samples.client


def _check_features(samples: Any) -> None:
    """Raise ValueError if a lag is not among the features."""
    label = label_column(samples)
    options = series_options(samples)
    assert options.frequency is not None
    season = options.season or options.frequency.season
    names = [lag_name(label, lag) for lag in options.lags_with(season)]
    missing = [name for name in names if name not in samples.features]
    if missing:
        raise ValueError(
            f"features: lacks the lags {listed(missing)} of label = {label!r}; add them after the "
            "other features, or correct lags"
        )


def _further_lags(samples: Any, label: str, lags: tuple[int, ...]) -> tuple[str, ...]:
    """The lags among the features that the tables have already.

    Args:
        samples: the section [samples].
        label: column of the label.
        lags: the lags that a site computes.
    """
    pattern = re.compile(re.escape(label) + r"_lag\d+")
    computed = {lag_name(label, lag) for lag in lags}
    all_lags = [name for name in samples.features if pattern.fullmatch(name)]
    return tuple(name for name in all_lags if name not in computed)


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
        message = _refusal_of_scale(data["label_scale"])
        raise ConfigError(f"{place('data.label_scale')}: {message}")
