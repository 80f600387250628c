"""The part of an axis that the map of the clients shows."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.reporting.html.similarity_charts import map_range


def test_a_few_outliers_are_outside() -> None:
    usual = np.linspace(-0.1, 0.1, 50)
    low, high = map_range(np.append(usual, [1.0, -0.9]))
    assert -0.13 < low < -0.1 and 0.1 < high < 0.13


@pytest.mark.parametrize(
    "scores",
    [
        np.linspace(-1, 1, 40),  # no outliers
        np.append(np.zeros(30), np.ones(12)),  # two groups, of which none is an outlier
        np.append(np.linspace(-0.5, 0.5, 40), [1.0]),  # an outlier that squashes nothing
        np.array([0.3]),
        np.zeros(4),
    ],
)
def test_otherwise_all_clients_are_inside(scores: np.ndarray) -> None:
    low, high = map_range(scores.astype(float))
    assert low < scores.min() and scores.max() < high
