"""Means with intervals against SciPy, and tables that are JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedkin.analysis.tables import mean_and_interval, rows_of
from fedkin.core.strict_json import json_value


@pytest.mark.parametrize("values", [[0.5, 0.7, 0.9], [0.2, 0.2, 0.25, 0.4, 0.1]])
def test_a_mean_and_its_interval_are_scipys(values: list[float]) -> None:
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    told = mean_and_interval("best", values)
    assert list(told) == ["best", "best_low", "best_high"]
    assert list(told.values()) == pytest.approx([np.mean(values), low, high])


@pytest.mark.parametrize(("values", "mean"), [([0.5], 0.5), ([0.5, 0.75], 0.625)])
def test_fewer_than_three_seeds_have_no_interval(values: list[float], mean: float) -> None:
    assert mean_and_interval("x", values) == {"x": mean, "x_low": None, "x_high": None}


@pytest.mark.parametrize("values", [[], [0.5, None, 0.7], [None], [0.5, float("nan"), 0.6]])
def test_a_seed_without_a_number_leaves_none(values: list[float | None]) -> None:
    assert mean_and_interval("x", values) == {"x": None, "x_low": None, "x_high": None}


def test_equal_seeds_have_an_interval_without_width() -> None:
    assert mean_and_interval("x", [0.5, 0.5, 0.5]) == {"x": 0.5, "x_low": 0.5, "x_high": 0.5}


def test_rows_are_plain_json() -> None:
    table = pd.DataFrame(
        {
            "name": ["a", "b"],
            "share": [0.5, np.nan],
            "count": np.array([1, 2], np.int64),
            "no": [None] * 2,
        }
    )
    rows = rows_of(table)
    assert rows == [
        {"name": "a", "share": 0.5, "count": 1, "no": None},
        {"name": "b", "share": None, "count": 2, "no": None},
    ]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert rows_of(pd.DataFrame(columns=["a"])) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.inf, None),
        (np.float64("nan"), None),
    ]
    + [(None, None), ("a", "a"), (7, 7)],
)
def test_a_cell_is_plain(value: object, expected: object) -> None:
    told = json_value(value)
    assert told == expected and type(told) is type(expected)
