"""Distances between long rows, also between rows that nearly coincide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from fedkin.core.errors import MethodError
from fedkin.measures import gram as gram_module
from fedkin.measures.distances import METRICS, pairwise

ROWS = np.array([[3, 4], [0, 0], [-6, -8], [4, -3]], np.float32)
SCIPY: dict[str, Any] = {"l1": "cityblock", "l2": "euclidean", "cosine": "cosine"}


def test_l1_by_hand() -> None:
    np.testing.assert_array_equal(
        pairwise(ROWS, "l1"), [[0, 7, 21, 8], [7, 0, 14, 7], [21, 14, 0, 15], [8, 7, 15, 0]]
    )


def test_l2_by_hand() -> None:
    expected = np.sqrt([[0, 25, 225, 50], [25, 0, 100, 25], [225, 100, 0, 125], [50, 25, 125, 0]])
    np.testing.assert_allclose(pairwise(ROWS, "l2"), expected)


def test_cosine_by_hand() -> None:
    """The zero row has no direction: it is at 1 from all others, and at 0 from itself."""
    expected = [[0, 1, 2, 1], [1, 0, 1, 1], [2, 1, 0, 1], [1, 1, 1, 0]]
    np.testing.assert_allclose(pairwise(ROWS, "cosine"), expected, atol=1e-15)


def test_two_rows_without_direction() -> None:
    zeros = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(pairwise(zeros, "cosine"), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(pairwise(zeros, "l2"), np.zeros((2, 2)))


@pytest.mark.parametrize("metric", METRICS)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 30))
def test_against_scipy(metric: str, seed: int, n: int, parameters: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(n, parameters)).astype(np.float32)
    result = pairwise(rows, metric)
    np.testing.assert_allclose(
        result, cdist(rows.astype(float), rows.astype(float), SCIPY[metric]), atol=1e-12
    )
    np.testing.assert_array_equal(result, result.T)
    np.testing.assert_array_equal(result.diagonal(), 0)


@pytest.mark.parametrize("metric", METRICS)
def test_more_columns_than_a_block_holds(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "_BLOCK", 1)
    rows = np.random.default_rng(0).normal(size=(5, 1000))
    rows[4] = rows[3] * (1 + 1e-9)
    np.testing.assert_allclose(
        pairwise(rows, metric), cdist(rows, rows, SCIPY[metric]), atol=1e-13, rtol=1e-6
    )


def test_near_rows_far_from_the_others() -> None:
    """Two rows differ by 2^-20 of their length; sums of squares in float64 would find their
    distance to 5 digits."""
    rows = np.array([[1, 1, 0], [1, 1, 2**-20], [0, 1, 5]], np.float32)
    np.testing.assert_allclose(pairwise(rows, "l2")[0], [0, 2**-20, np.sqrt(26)], rtol=1e-15)
    # the angle is 2^-20 / sqrt 2, and 1 - cos half its square
    np.testing.assert_allclose(pairwise(rows, "cosine")[0, 1], 2**-42, rtol=1e-9)


def test_equal_rows_are_at_no_distance() -> None:
    rows = np.repeat(np.random.default_rng(0).normal(size=(3, 100)), 4, axis=0).astype(np.float32)
    for metric in METRICS:
        assert np.all(
            (pairwise(rows, metric) == 0) == np.kron(np.eye(3), np.ones((4, 4))).astype(bool)
        )


def test_length_does_not_matter_to_cosine() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    scaled = rows * np.array([[1e-15], [1], [1e15], [30]], np.float32)
    np.testing.assert_allclose(pairwise(scaled, "cosine"), pairwise(rows, "cosine"), atol=1e-6)


def test_one_row() -> None:
    for metric in METRICS:
        np.testing.assert_array_equal(pairwise(ROWS[:1], metric), [[0]])


def test_an_unknown_metric() -> None:
    with pytest.raises(MethodError, match="unknown metric 'cosin'; did you mean 'cosine'"):
        pairwise(ROWS, "cosin")
