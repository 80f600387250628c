"""Newer tables of series as the input of a model of forecasts, and forecasts in units of the label.

A model needs the past of each series and its scale. So samples are a table: rows of the past with
labels, and rows to be forecast without.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import Samples
from fedkin.data.new_series import NewSeries, prepare_new
from fedkin.data.table_transform import transform_of
from fedkin.export.columns import is_table
from fedkin.export.input_samples import as_samples
from fedkin.task_types.forecast import Forecast

_log = logging.getLogger("fedkin")


def new_rows(
    x: Any, samples: Samples, place: Path | str = "samples", client: str | None = None
) -> NewSeries:
    """A newer table of series with the columns of the lags.

    Args:
        x: a DataFrame with the run's columns of time, client and label.
        samples: the training samples.
        place: file or name with which messages begin.
        client: client of all rows, if the table has no column of clients.

    Raises:
        ConfigError: x is no table.
        DataError: a column is missing, a time cannot be read, a newcomer has no past, or no row has
            all lags.
    """
    task_type: Forecast = samples.task_type  # type: ignore[attr-defined]
    series = task_type.series
    if series is None or not is_table(x):
        raise ConfigError(
            f"{place}: a forecast needs the past and the scale of each series, so pass a DataFrame "
            "with the columns of time, client and label: rows of the past, and rows to be forecast "
            "whose label is missing"
        )
    transform = transform_of(samples)
    table = x if transform is None else transform.rename(x)
    found = prepare_new(table, task_type, place, client)
    if not found.complete.any():
        raise DataError(
            f"{place}: no row has all lags {', '.join(map(str, series.lags))}; add rows of "
            f"{max(series.lags, default=1)} earlier steps with {series.label!r}"
        )
    incomplete = int((~found.complete).sum())
    if incomplete:
        _log.warning(
            "%s: %d of %d rows are not forecast, because the label is not known at all lags before "
            "them",
            place,
            incomplete,
            len(found.complete),
        )
    return found


def in_label_units(
    new: NewSeries, task_type: Forecast, scores: Float[np.ndarray, "m C"]
) -> Float64[np.ndarray, "M"]:
    """Forecasts of all rows in units of the label; NaN for rows without all lags.

    Args:
        new: the rows.
        task_type: the task type of the run.
        scores: outputs of a model for the rows with all lags.
    """
    forecast = np.full(len(new.complete), np.nan)
    rows = new.rows.select(new.complete)
    scaled = task_type.loss.mean(np, np.asarray(scores, np.float64), 0.0)
    forecast[new.complete] = scaled * rows.scale + rows.mean
    return forecast


def with_client(x: Any, samples: Samples, client: str) -> Any:
    """A table of one client with the column of the client, if it has none. Other samples stay
    unchanged.

    Args:
        x: samples, such as a DataFrame.
        samples: the training samples.
        client: name of the client.
    """
    task_type = getattr(samples, "task_type", None)
    series = task_type.series if isinstance(task_type, Forecast) else None
    if series is None or not is_table(x) or series.client in x:
        return x
    return x.assign(**{series.client: client})


def labelled_rows(
    x: Any, samples: Samples
) -> tuple[Shaped[np.ndarray, "s ..."], Float32[np.ndarray, "s q"]]:
    """The input of the network and ``y`` of the rows of a table that have all lags and a label.
    Errors are those of ``new_rows``."""
    new = new_rows(x, samples)
    rows = new.scorable
    features = as_samples(new.table[rows], samples)
    return features, new.rows.select(rows).rows_with(new.label[rows], None)
