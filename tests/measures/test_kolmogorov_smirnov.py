"""The Kolmogorov-Smirnov statistic: by hand, with ties, and against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from fedkin.measures.kolmogorov_smirnov import ks_statistics


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def test_by_hand() -> None:
    """F is 1/3, 1, 1 and G is 0, 1/2, 1 at the values 1, 2, 3. With the two 2 of the first client
    taken one after the other, and before those of the second client, the distance would be 1."""
    first = column(1, 2, 2)
    second = column(2, 3)
    assert ks_statistics(first, second).tolist() == [0.5]
    assert ks_statistics(second, first).tolist() == [0.5]


@pytest.mark.parametrize(
    ("second", "distance"),
    [(column(2, 1, 2, 2, 2, 1), 0), (column(5, 9), 1), (column(0, 0.5), 1)],
    ids=["the same shares", "above", "below"],
)
def test_ends_of_the_scale(second: np.ndarray, distance: float) -> None:
    assert ks_statistics(column(1, 2, 2), second).tolist() == [distance]


def test_each_feature_is_compared_as_in_scipy() -> None:
    """Features on a grid, so that most values are tied."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, (17, 5)).astype(np.float32)
    second = rng.integers(1, 9, (11, 5)).astype(np.float32)
    tests: list[Any] = [ks_2samp(a, b) for a, b in zip(first.T, second.T, strict=True)]
    expected = [test.statistic for test in tests]
    np.testing.assert_allclose(ks_statistics(first, second), expected, rtol=1e-12)
