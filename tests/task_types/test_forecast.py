"""The task type of forecasts: MASE against the oracle vectors, scales of clients, and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.task_types.catalogue import task_type_from, values_of
from fedkin.task_types.forecast import Forecast, ForecastColumn
from tests.task_vectors import task_case


def measured(data: FederatedData, rows: np.ndarray, forecast: np.ndarray) -> dict[str, float]:
    """The measures of forecasts in units of the label on some rows together."""
    task = data.task_type
    y = data.y[rows].astype(np.float64)
    scores = (forecast - y[:, ForecastColumn.MEAN]) / y[:, ForecastColumn.SCALE]
    parts = [*task.sample_scores(np, scores[:, None], y), *task.constant_scores(y)]
    sums = {name: np.float64(part.sum()) for name, part in zip(task.sums, parts, strict=True)}
    return {name: float(value) for name, value in task.values(sums, len(rows)).items()}


def series(clients: dict[str, Any], start: str = "2010-01") -> pd.DataFrame:
    """A row for each client and month."""
    parts = []
    for name, values in clients.items():
        months = pd.period_range(start, periods=len(values), freq="M").astype(str)
        parts.append(pd.DataFrame({"shop": name, "month": months, "sales": values}))
    return pd.concat(parts, ignore_index=True)


def read(table: pd.DataFrame, **options: Any) -> FederatedData:
    return fk.data.from_pandas(
        table, label="sales", client="shop", task="forecast", time="month", **options
    )


@pytest.mark.parametrize("label_scale", ["client", "pooled"])
def test_the_oracle_through_the_reader(
    oracle: Callable[[str], dict[str, Any]], label_scale: str
) -> None:
    """Another client, a thousand times as large, changes nothing."""
    known = task_case(oracle, "forecast_metrics")
    inputs = known["inputs"]
    values = np.array([*inputs["history"], *inputs["future"]])
    table = series({"own": values, "large": 1000 * values[::-1]})
    data = read(table, lags=[1], test_from="2013-01", label_scale=label_scale)
    rows = data.test[list(data.client_names or ()).index("own")]
    found = measured(data, rows, np.array(inputs["forecast"]))
    printed = known["outputs"]
    close = 1e-5 if label_scale == "client" else 1e-2  # float32 of the pooled scale
    assert found["mean_absolute_scaled_error"] == pytest.approx(printed["MASE"], rel=close)
    naive = printed["MASE of seasonal naive"]
    assert found["seasonal_naive_error"] == pytest.approx(naive, rel=close)
    past = np.array([inputs["history"][-1], *inputs["future"][:-1]])
    error = np.abs(np.array(inputs["future"]) - past).mean()
    seasonal = np.abs(np.subtract(inputs["history"][12:], inputs["history"][:-12])).mean()
    assert found["last_value_error"] == pytest.approx(error / seasonal, rel=close)


def test_errors_are_in_units_of_the_label() -> None:
    """A forecast that is off by 3 has RMSE and MAE 3, for clients of any scale."""
    months = np.arange(48)
    small = 10 + np.sin(months)
    table = series({"small": small, "large": 1e4 + 500 * small**2})
    data = read(table, lags=[1], test_from="2013-01")
    rows = data.test.rows
    label = (
        data.y[rows, ForecastColumn.LABEL] * data.y[rows, ForecastColumn.SCALE]
        + data.y[rows, ForecastColumn.MEAN]
    )
    found = measured(data, rows, label.astype(np.float64) + 3)
    assert found["root_mean_squared_error"] == pytest.approx(3, abs=0.02)
    assert found["mean_absolute_error"] == pytest.approx(3, abs=0.02)


def test_each_client_is_scaled_by_its_own_training_labels() -> None:
    """A pooled scale, or one that sees the test period, gives other numbers."""
    values = np.arange(24.0) ** 2
    data = read(series({"a": values, "b": -50 * values}), lags=[1], test_from="2011-01", season=4)
    for number, factor in enumerate((1, -50)):
        training = factor * values[:12]
        y = data.y[data.test[number]]
        assert y[:, ForecastColumn.MEAN] == pytest.approx(training.mean(), rel=1e-6)
        assert y[:, ForecastColumn.SCALE] == pytest.approx(training.std(), rel=1e-6)
        scaled = (factor * values[12:] - training.mean()) / training.std()
        assert y[:, ForecastColumn.LABEL] == pytest.approx(scaled, rel=1e-5)
    pooled = read(
        series({"a": values, "b": -50 * values}),
        lags=[1],
        test_from="2011-01",
        label_scale="pooled",
    )
    assert len(np.unique(pooled.y[:, ForecastColumn.SCALE])) == 1
    # Series that are multiples of each other are the same to a model with scales of clients.
    assert data.x[data.train[0]] == pytest.approx(data.x[data.train[1]] * [-1], rel=1e-4)


def test_a_client_without_a_seasonal_error_has_no_mase() -> None:
    """It repeats itself every season, so the unit of MASE is 0."""
    repeating = np.tile(np.arange(12.0), 4)
    moving = np.arange(48.0) ** 1.5
    data = read(series({"moving": moving, "repeating": repeating}), lags=[1], test_from="2013-01")
    forecasts = {0: moving[36:] + 1, 1: repeating[36:] + 1}
    by_client = [measured(data, data.test[k], forecasts[k]) for k in range(2)]
    assert np.isnan(by_client[1]["mean_absolute_scaled_error"])
    assert by_client[1]["mean_absolute_error"] == pytest.approx(1)
    task = data.task_type
    sums = {name: np.zeros(2) for name in task.sums}
    for k in range(2):
        y = data.y[data.test[k]].astype(np.float64)
        scores = (forecasts[k] - y[:, ForecastColumn.MEAN]) / y[:, ForecastColumn.SCALE]
        parts = [*task.sample_scores(np, scores[:, None], y), *task.constant_scores(y)]
        for name, part in zip(task.sums, parts, strict=True):
            sums[name][k] = part.sum()
    together = task.per_client(sums, np.array([12, 12]))["mean_absolute_scaled_error"]
    assert together == pytest.approx(by_client[0]["mean_absolute_scaled_error"])


def test_there_is_no_r2_of_levels() -> None:
    assert Forecast().measures[0] == "mean_absolute_scaled_error"
    assert not [name for name in Forecast().measures if "r2" in name or "d2" in name]


def test_a_task_type_is_the_same_after_json() -> None:
    table = series({"a": np.arange(48.0), "b": np.arange(48.0) ** 2})
    task = read(table, lags=[1, 2], loss="huber").task_type
    again = task_type_from(json.loads(json.dumps(values_of(task))), "card.json")
    assert isinstance(task, Forecast) and isinstance(again, Forecast)
    assert again == task  # compared by the loss
    assert again.series == task.series
    assert again.scales == task.scales
    assert again.seasonal_errors == task.seasonal_errors
    assert set(task.seasonal_errors) == {"a", "b"}
