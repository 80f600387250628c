"""DBSCAN and OPTICS against the authors' calls of scikit-learn, and the treatment of noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import DBSCAN, OPTICS

from fedkin.clustering.density import (
    assign_noise,
    by_first_appearance,
    dbscan,
    euclidean,
    nearest_label,
    nearest_neighbour_distance,
    optics,
    same_partition,
)
from fedkin.core.errors import MethodError

LINE = np.array([[0.0], [10.0], [1.0], [11.0], [50.0], [0.5]])  # two groups, and 50 far from both


def test_dbscan_by_hand() -> None:
    np.testing.assert_array_equal(dbscan(LINE, 2, 2), [0, 1, 0, 1, -1, 0])
    # 10 and 11 are two with themselves.
    np.testing.assert_array_equal(dbscan(LINE, 2, 3), [0, -1, 0, -1, -1, 0])
    np.testing.assert_array_equal(dbscan(LINE, 0.1, 2), [-1] * 6)
    np.testing.assert_array_equal(dbscan(LINE, 0.1, 1), [0, 1, 2, 3, 4, 5])


def test_eps_itself_is_near() -> None:
    pair = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_array_equal(dbscan(pair, 5, 2), [0, 0])
    np.testing.assert_array_equal(dbscan(pair, np.nextafter(5, 0), 2), [-1, -1])


def test_a_border_point_joins_the_first_cluster() -> None:
    """2 is near to the cores 1 and 3 of two clusters, and no core itself: 4 points must be near."""
    points = np.array([[3.9], [3.0], [3.5], [0.0], [0.1], [1.0], [2.0], [3.8], [0.2]])
    np.testing.assert_array_equal(dbscan(points, 1, 4), [0, 0, 0, 1, 1, 1, 0, 0, 1])
    np.testing.assert_array_equal(dbscan(points[::-1], 1, 4), [0, 1, 0, 0, 0, 0, 1, 1, 1])


@given(st.integers(0, 10_000), st.integers(1, 25), st.integers(1, 4))
def test_dbscan_is_scikit_learns(seed: int, n: int, min_samples: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 2))
    expected = DBSCAN(eps=0.5, min_samples=min_samples).fit_predict(points)
    result = dbscan(points, 0.5, min_samples)
    assert same_partition(result, expected)
    seen = [k for k in dict.fromkeys(result.tolist()) if k >= 0]
    assert seen == list(range(len(seen)))  # numbered by first appearance


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_optics_is_scikit_learns(seed: int, min_samples: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(20, 3)) + 6 * rng.integers(3, size=(20, 1))
    assert same_partition(
        optics(points, min_samples), OPTICS(min_samples=min_samples).fit_predict(points)
    )


def test_optics_of_equal_points() -> None:
    np.testing.assert_array_equal(
        optics(np.repeat([[0.0], [9.0]], 3, axis=0), 2), [0, 0, 0, 1, 1, 1]
    )


def test_too_few_points_are_noise() -> None:
    np.testing.assert_array_equal(optics(LINE[:2], 3), [-1, -1])
    np.testing.assert_array_equal(dbscan(LINE[:2], 100, 3), [-1, -1])
    assert len(optics(LINE[:0], 2)) == len(dbscan(LINE[:0], 1, 2)) == 0


def test_float32_points_are_measured_in_float64() -> None:
    """In float32 the squares of 10,000 and 10,001 would differ by 2 in 1e8:
    no digit of it is kept."""
    points = np.array([[1e4, 0], [1e4 + 1, 0]], np.float32)
    np.testing.assert_array_equal(euclidean(points), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(dbscan(points, 1, 2), [0, 0])


def test_noise_points_get_their_own_labels() -> None:
    labels = np.array([-1, 0, 1, -1, 1, -1])
    np.testing.assert_array_equal(assign_noise(LINE, labels, "own"), [2, 0, 1, 3, 1, 4])
    np.testing.assert_array_equal(labels, [-1, 0, 1, -1, 1, -1])  # the caller's stay as they are


def test_noise_joins_the_nearest() -> None:
    labels = np.array([-1, 0, 1, -1, -1, 1])
    np.testing.assert_array_equal(assign_noise(LINE, labels, "nearest"), [1, 0, 1, 0, 0, 1])


@pytest.mark.parametrize("how", ["own", "nearest"])
def test_all_or_nothing_is_noise(how: str) -> None:
    np.testing.assert_array_equal(assign_noise(LINE, np.full(6, -1), how), range(6))
    np.testing.assert_array_equal(
        assign_noise(LINE, np.array([0, 1, 0, 1, 2, 0]), how), [0, 1, 0, 1, 2, 0]
    )
    assert len(assign_noise(LINE[:0], np.zeros(0, int), how)) == 0


def test_nearest_by_hand() -> None:
    known = np.array([[0.0, 0.0], [6.0, 8.0], [6.0, 8.0]])
    labels, distance = nearest_label(
        np.array([[3.0, 4.0], [6.0, 9.0], [0.0, 0.0]]), known, np.array([7, 3, 5])
    )
    np.testing.assert_array_equal(labels, [7, 3, 7])  # (3, 4) is at 5 from both: the first
    np.testing.assert_array_equal(distance, [5, 1, 0])


def test_no_query_gives_no_nearest_label() -> None:
    labels, distance = nearest_label(LINE[:0], LINE, np.arange(6))
    assert len(labels) == len(distance) == 0


def test_gap() -> None:
    np.testing.assert_array_equal(nearest_neighbour_distance(LINE), [0.5, 1, 0.5, 1, 39, 0.5])
    np.testing.assert_array_equal(nearest_neighbour_distance(LINE[:1]), [np.inf])
    np.testing.assert_array_equal(nearest_neighbour_distance(np.zeros((3, 2))), [0, 0, 0])
    assert len(nearest_neighbour_distance(LINE[:0])) == 0


def test_distances_are_scipys() -> None:
    points = np.random.default_rng(0).normal(size=(7, 5))
    np.testing.assert_allclose(euclidean(points), cdist(points, points), atol=1e-12)


def test_partitions_by_name() -> None:
    a = np.array([4, 4, -1, 2, 4, 0])
    np.testing.assert_array_equal(by_first_appearance(a), [0, 0, -1, 1, 0, 2])
    assert same_partition(a, np.array([0, 0, -1, 5, 0, 9]))
    assert not same_partition(a, np.array([0, 0, 1, 5, 0, 9]))  # noise is no cluster
    assert not same_partition(a, np.array([0, 0, -1, 5, 0, 5]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dbscan(LINE, 0, 2), "above 0, got 0"),
        (lambda: dbscan(LINE, float("nan"), 2), "finite distance above 0, got nan"),
        (lambda: dbscan(LINE, float("inf"), 2), "got inf"),
        (lambda: dbscan(LINE, 1, 0), "at least 1 .*got 0"),
        (lambda: optics(LINE, 1), "at least 2 .*got 1"),
        (lambda: assign_noise(LINE, np.full(6, -1), "nerest"), "did you mean 'nearest'"),
        (lambda: nearest_label(LINE, LINE[:0], np.zeros(0, int)), "at least 1"),
    ],
)
def test_invalid_values_are_refused(call: Any, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        call()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_points_must_be_finite(bad: float) -> None:
    points = LINE.copy()
    points[3] = bad
    labels = np.array([0, 1, 0, -1, 1, 0])
    for call in (
        lambda: dbscan(points, 1, 2),
        lambda: optics(points, 2),
        lambda: nearest_neighbour_distance(points),
        lambda: nearest_label(LINE, points, labels),
        lambda: nearest_label(points, LINE, labels),
    ):
        with pytest.raises(MethodError, match=r"finite.*point 3"):
            call()
