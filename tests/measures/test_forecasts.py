"""Measures of forecasts: the oracle vectors, and cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import DataError, MethodError
from fedkin.measures.forecasts import mase, seasonal_naive, smape
from tests.task_vectors import task_case


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "forecast_metrics")
    history = np.array(known["inputs"]["history"])
    future = np.array(known["inputs"]["future"])
    forecast = np.array(known["inputs"]["forecast"])
    season = known["inputs"]["season"]
    printed = known["outputs"]
    assert mase(future, forecast, history, season) == pytest.approx(printed["MASE"], rel=1e-12)
    assert smape(future, forecast) == pytest.approx(printed["sMAPE"], rel=1e-12)
    naive = seasonal_naive(history, len(future), season)
    assert naive.tolist() == printed["seasonal naive"]
    own = mase(future, naive, history, season)
    assert own == pytest.approx(printed["MASE of seasonal naive"], rel=1e-12)


def test_the_seasonal_naive_forecast_repeats_the_last_season() -> None:
    history = np.array([9.0, 1.0, 2.0, 3.0])
    assert seasonal_naive(history, 5, season=3).tolist() == [1, 2, 3, 1, 2]
    assert seasonal_naive(history, 2).tolist() == [3, 3]
    with pytest.raises(DataError, match=r"season has 5 values.* only 4"):
        seasonal_naive(history, 1, season=5)
    with pytest.raises(MethodError, match="season"):
        seasonal_naive(history, 1, season=0)


def test_the_scaled_error_by_hand() -> None:
    """Last value: errors 1 and 3 within the training period, mean 2; the forecast is 1 off."""
    assert mase(np.array([5.0]), np.array([6.0]), np.array([1.0, 2.0, 5.0])) == 0.5


def test_missing_values_are_left_out() -> None:
    history = np.array([1.0, np.nan, 3.0, 4.0])
    y = np.array([5.0, np.nan])
    assert mase(y, np.array([6.0, 100.0]), history) == 1.0
    assert smape(y, np.array([5.0, 100.0])) == 0.0


@pytest.mark.parametrize(
    "history", [[2.0, 2.0, 2.0], [1.0], []], ids=["constant", "one value", "none"]
)
def test_without_a_scale_there_is_no_scaled_error(history: list[float]) -> None:
    assert np.isnan(mase(np.array([1.0]), np.array([2.0]), np.array(history)))


def test_the_percentage_error_of_two_zeros_is_zero() -> None:
    assert smape(np.array([0.0, 0.0]), np.array([0.0, 3.0])) == 1.0
    assert np.isnan(smape(np.zeros(0), np.zeros(0)))
