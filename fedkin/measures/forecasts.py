"""Measures of forecasts of one series, and the seasonal naive forecast as their baseline.

Source: R. Hyndman, A. Koehler: Another Look at Measures of Forecast Accuracy. International Journal
of Forecasting 22, 2006.

Shapes: T past values of a series in the order of time, H forecast ones.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Real

from fedkin.core.errors import DataError
from fedkin.core.validation import check_positive_integer


def seasonal_naive(
    history: Real[np.ndarray, "T"], horizon: int, season: int = 1
) -> Float64[np.ndarray, "H"]:
    """The forecast that repeats the last season: y(T+h) is the last known value at the same place
    of the season.

    Args:
        history: past values of the series.
        horizon: H, the number of values to forecast.
        season: number of values in a season, such as 12 for months; 1 repeats the last value.

    Raises:
        DataError: the series is shorter than a season.
    """
    check_positive_integer("season", season)
    if len(history) < season:
        raise DataError(
            f"seasonal_naive: a season has {season} values, but the series has only {len(history)}"
        )
    last = np.asarray(history, np.float64)[-season:]
    return last[np.arange(horizon) % season]


def mase(
    y: Real[np.ndarray, "H"],
    forecast: Real[np.ndarray, "H"],
    history: Real[np.ndarray, "T"],
    season: int = 1,
) -> float:
    """Mean absolute scaled error (MASE): the mean absolute error, divided by the mean absolute
    error of the seasonal naive forecast within the training period, one season ahead.

    It has no unit, so series of different levels can be compared: below 1, a forecast is better
    than last season's value was in the training period. Missing values (NaN) are left out.

    Args:
        y: values of the series.
        forecast: forecasts of these values.
        history: values of the training period, in the order of time.
        season: number of values in a season, such as 12 for months.

    Returns:
        The error; NaN if no value is known, the training period has no value one season before
        another, or does not vary between seasons.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> history = np.array([1.0, 4.0, 3.0, 6.0])
        >>> float(fk.mase(np.array([5.0, 8.0]), np.array([4.0, 8.0]), history, season=2))
        0.25
    """
    check_positive_integer("season", season)
    past = np.asarray(history, np.float64)
    scale = _mean_of_known(np.abs(past[season:] - past[:-season]))
    error = _mean_of_known(np.abs(np.subtract(y, forecast, dtype=np.float64)))
    return error / scale if scale > 0 else math.nan


def smape(y: Real[np.ndarray, "H"], forecast: Real[np.ndarray, "H"]) -> float:
    """Symmetric mean absolute percentage error (sMAPE) as a share from 0 to 2: the mean of
    2 |y - f| / (|y| + |f|).

    Where value and forecast are both 0 the error is 0. Missing values (NaN) are left out. It is for
    series of positive values: near 0 it is unstable.

    Args:
        y: values of the series.
        forecast: forecasts of these values.
    """
    error = 2 * np.abs(np.subtract(y, forecast, dtype=np.float64))
    size = np.abs(np.asarray(y, np.float64)) + np.abs(np.asarray(forecast, np.float64))
    share = np.divide(error, size, out=error.copy(), where=size > 0)
    return _mean_of_known(share)


def _mean_of_known(values: Float64[np.ndarray, "_"]) -> float:
    """Mean of the values that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
