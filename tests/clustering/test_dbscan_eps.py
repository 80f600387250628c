"""The ranges of eps against DBSCAN at every distance, and the rules that choose one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.cluster import DBSCAN
from sklearn.metrics import silhouette_score

from fedkin.clustering.dbscan_eps import (
    EpsRange,
    eps_ranges,
    k_distances,
    knee,
    kneedle,
    suggest_eps,
    useful_range,
)
from fedkin.clustering.density import dbscan, euclidean, same_partition
from fedkin.core.errors import MethodError

LINE = np.array([[0.0], [1.0], [10.0], [12.0], [40.0]])


def result(points: np.ndarray, eps: float, min_samples: int) -> np.ndarray:
    """scikit-learn's labels; it refuses an eps of 0, for which the least number will do."""
    return DBSCAN(eps=max(eps, 1e-300), min_samples=min_samples, metric="precomputed").fit_predict(
        euclidean(points)
    )


def by_every_distance(points: np.ndarray, min_samples: int) -> list[tuple[float, int, int]]:
    """(low, clusters, noise) of each other partition, from DBSCAN at 0 and at all distances there
    are."""
    expected: list[tuple[float, int, int]] = []
    before = None
    for eps in np.unique([0.0, *pdist(points)]):
        labels = result(points, eps, min_samples)
        if before is None or not same_partition(labels, before):
            expected.append((float(eps), int(labels.max() + 1), int((labels == -1).sum())))
        before = labels
    return expected


def blobs(
    seed: int, centres: np.ndarray, each: int, spread: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    true = np.repeat(np.arange(len(centres)), each)
    noise = np.random.default_rng(seed).normal(size=(len(true), centres.shape[1]))
    return centres[true] + spread * noise, true


def test_ranges_by_hand() -> None:
    ranges = eps_ranges(LINE, 2)
    assert [(r.low, r.high, r.clusters, r.noise) for r in ranges] == [
        (0, 1, 0, 5),
        (1, 2, 1, 3),
        (2, 9, 2, 1),
        (9, 28, 1, 1),
        (28, math.inf, 1, 0),
    ]
    # points 0, 1 | 10, 12: distances within 1 and 2, the mean ones between 11, 10, 9.5 and 11.5
    expected = np.mean([1 - 1 / 11, 1 - 1 / 10, 1 - 2 / 9.5, 1 - 2 / 11.5])
    assert [r.silhouette for r in ranges] == [None, None, pytest.approx(expected), None, None]
    assert {r.points for r in ranges} == {5}


@given(st.integers(0, 10_000), st.integers(1, 14), st.integers(1, 5), st.booleans())
def test_no_partition_is_missed(seed: int, n: int, min_samples: int, grid: bool) -> None:
    """On a grid many distances are equal, and so are points."""
    rng = np.random.default_rng(seed)
    points = rng.integers(5, size=(n, 2)).astype(float) if grid else rng.normal(size=(n, 2))
    ranges = eps_ranges(points, min_samples)
    assert [(r.low, r.clusters, r.noise) for r in ranges] == by_every_distance(points, min_samples)
    assert [r.high for r in ranges] == [*(r.low for r in ranges[1:]), math.inf]


@pytest.mark.parametrize("min_samples", [4, 6])
def test_border_points_that_change_hands(min_samples: int) -> None:
    """Dense places in one dimension, where points lie between clusters and are core of none."""
    for seed in range(3):
        points = np.sort(np.random.default_rng(seed).normal(size=(18, 1)) ** 3, axis=0)[::-1].copy()
        ranges = eps_ranges(points, min_samples, scored=0)
        assert [(r.low, r.clusters, r.noise) for r in ranges] == by_every_distance(
            points, min_samples
        )


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 3))
def test_silhouette_equals_the_silhouette_of_the_points(seed: int, min_samples: int) -> None:
    points = np.random.default_rng(seed).normal(size=(12, 2))
    for r in eps_ranges(points, min_samples):
        labels = result(points, r.low, min_samples)
        some = labels >= 0
        if 1 < r.clusters < some.sum():
            assert r.silhouette == pytest.approx(
                silhouette_score(points[some], labels[some]), abs=1e-9
            )
        else:
            assert r.silhouette is None


def test_only_the_widest_are_scored() -> None:
    points, _ = blobs(0, np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 200.0]]), each=6)
    ranges = eps_ranges(points, 2, scored=2)
    several = sorted((r for r in ranges if r.clusters > 1), key=lambda r: r.high / r.low)
    assert len(several) > 3
    assert [r.silhouette is None for r in several] == [True] * (len(several) - 2) + [False] * 2


def test_few_points() -> None:
    assert eps_ranges(LINE[:0], 2) == [
        EpsRange(low=0.0, high=math.inf, clusters=0, noise=0, silhouette=None, points=0)
    ]
    assert eps_ranges(LINE[:1], 2) == [
        EpsRange(low=0.0, high=math.inf, clusters=0, noise=1, silhouette=None, points=1)
    ]
    assert eps_ranges(LINE[:1], 1) == [
        EpsRange(low=0.0, high=math.inf, clusters=1, noise=0, silhouette=None, points=1)
    ]
    assert eps_ranges(LINE, 6) == [
        EpsRange(low=0.0, high=math.inf, clusters=0, noise=5, silhouette=None, points=5)
    ]
    assert eps_ranges(np.zeros((3, 2)), 3) == [
        EpsRange(low=0.0, high=math.inf, clusters=1, noise=0, silhouette=None, points=3)
    ]


def test_k_distances_by_hand() -> None:
    np.testing.assert_array_equal(k_distances(LINE, 2), [1, 1, 2, 2, 28])
    np.testing.assert_array_equal(k_distances(LINE, 3), [9, 9, 10, 11, 30])
    np.testing.assert_array_equal(k_distances(LINE, 1), np.zeros(5))
    np.testing.assert_array_equal(k_distances(LINE, 6), np.full(5, np.inf))


@pytest.mark.parametrize("min_samples", [2, 3, 5])
def test_points_are_core_from_their_k_distance_on(min_samples: int) -> None:
    points = np.random.default_rng(0).normal(size=(15, 3))
    distances = k_distances(points, min_samples)
    for eps in distances:
        fit = DBSCAN(eps=eps, min_samples=min_samples, metric="precomputed").fit(euclidean(points))
        assert len(fit.core_sample_indices_) == (distances <= eps).sum()


def test_knee_by_hand() -> None:
    """The chord of (0, 0), (1, 0), (2, 0), (3, 1), (4, 8) is y = 2 x: below it by 0, 2, 4, 5, 0."""
    assert knee(np.array([0.0, 0.0, 0.0, 1.0, 8.0])) == 1
    assert knee(np.array([0.0, 7.0, 8.0, 8.0, 8.0])) == 7  # above it by 0, 5, 4, 2, 0
    assert knee(np.array([0.0, 0.0, 0.0, 1.0, 8.0]) * 1e-9 + 3) == pytest.approx(
        3 + 1e-9, abs=1e-15
    )


def test_straight_curves_have_no_knee() -> None:
    for curve in ([4.0], [1.0, 4.0], [4.0, 4.0, 4.0], [0.0, 0.0], [1.0, 1.1, 1.2, 1.3, 1.4]):
        assert knee(np.array(curve)) == curve[-1]


@pytest.mark.parametrize("curve", [[], [1.0, np.inf], [np.nan]])
def test_an_invalid_curve_is_refused(curve: list[float]) -> None:
    with pytest.raises(MethodError, match="at least 1 finite value"):
        knee(np.array(curve))


@pytest.mark.parametrize("min_samples", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_suggested_for_blobs(seed: int, min_samples: int) -> None:
    points, true = blobs(seed, 40 * np.eye(4), each=6)
    np.testing.assert_array_equal(
        dbscan(points, suggest_eps(eps_ranges(points, min_samples)), min_samples), true
    )


@pytest.mark.parametrize("seed", range(5))
def test_suggested_for_one_blob(seed: int) -> None:
    points, _ = blobs(seed, np.zeros((1, 10)), each=20)
    np.testing.assert_array_equal(
        dbscan(points, suggest_eps(eps_ranges(points, 2)), 2), np.zeros(20)
    )


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_suggestion_has_the_unit_of_the_points(unit: float) -> None:
    points, _ = blobs(0, 40 * np.eye(3), each=5)
    assert suggest_eps(eps_ranges(points * unit, 2)) == pytest.approx(
        unit * suggest_eps(eps_ranges(points, 2)), rel=1e-9
    )


def test_a_client_unlike_all_others_stays_noise() -> None:
    points, true = blobs(0, 40 * np.eye(4), each=6)
    points = np.vstack([points, np.full((1, 4), 500.0)])
    np.testing.assert_array_equal(
        dbscan(points, suggest_eps(eps_ranges(points, 2)), 2), [*true, -1]
    )


def test_the_rule_by_hand() -> None:
    last = EpsRange(low=100.0, high=math.inf, clusters=1, noise=0, silhouette=None, points=10)
    quiet = EpsRange(low=1.0, high=4.0, clusters=3, noise=0, silhouette=None, points=10)
    wide = EpsRange(low=4.0, high=64.0, clusters=2, noise=1, silhouette=None, points=10)
    wider = EpsRange(low=4.0, high=36.0, clusters=2, noise=0, silhouette=None, points=10)
    noisy = EpsRange(low=1.0, high=50.0, clusters=2, noise=6, silhouette=None, points=10)
    narrow = EpsRange(low=10.0, high=19.0, clusters=3, noise=0, silhouette=None, points=10)
    equal = EpsRange(low=0.0, high=5.0, clusters=4, noise=0, silhouette=None, points=10)
    assert suggest_eps([quiet, wide, last]) == pytest.approx(2)  # the least noise first
    assert suggest_eps([quiet, wider, last]) == pytest.approx(12)  # then the widest
    # No gap, too much noise: one cluster.
    assert suggest_eps([narrow, noisy, last]) == pytest.approx(100 * math.sqrt(2))
    assert suggest_eps([narrow, noisy, last], gap=1.5) == pytest.approx(math.sqrt(190))
    assert suggest_eps([noisy, last], noise=0.6) == pytest.approx(math.sqrt(50))
    assert suggest_eps([equal, quiet, last]) == 2.5
    # Mostly clusters of one.
    assert suggest_eps(
        [EpsRange(low=0.0, high=5.0, clusters=6, noise=0, silhouette=None, points=10), quiet, last]
    ) == pytest.approx(2)
    assert (
        suggest_eps(
            [EpsRange(low=0.0, high=math.inf, clusters=1, noise=0, silhouette=None, points=3)]
        )
        == 1
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: suggest_eps(eps_ranges(LINE, 6)), "fewer points than min_samples"),
        (lambda: suggest_eps([]), "fewer points"),
        (lambda: suggest_eps(eps_ranges(LINE, 2), gap=0.5), "at least 1, got 0.5"),
        (lambda: eps_ranges(LINE, 0), "at least 1 .*got 0"),
        (lambda: useful_range(LINE, 0), "at least 1 .*got 0"),
        (lambda: k_distances(LINE, 0), "at least 1 .*got 0"),
        (lambda: eps_ranges(np.array([[0.0], [np.nan]]), 2), "point 1"),
    ],
)
def test_invalid_values_are_refused(call: Any, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        call()


def test_useful_by_hand() -> None:
    assert useful_range(LINE, 2) == (1, 28)
    assert useful_range(LINE, 1) == (0, 28)  # a point is a cluster
    assert useful_range(LINE[:2], 2) == (1, 1)
    assert useful_range(np.zeros((3, 2)), 2) == (0, 0)
    assert useful_range(LINE, 6) == useful_range(LINE[:0], 1) == (math.inf, math.inf)


@given(st.integers(0, 10_000), st.integers(2, 4))
def test_useful_against_dbscan(seed: int, min_samples: int) -> None:
    points = np.random.default_rng(seed).normal(size=(12, 2))
    low, high = useful_range(points, min_samples)
    assert (result(points, np.nextafter(low, 0), min_samples) == -1).all()
    assert (result(points, low, min_samples) >= 0).any()
    assert not (result(points, np.nextafter(high, 0), min_samples) == 0).all()
    assert (result(points, high, min_samples) == 0).all()


# --- Kneedle


def test_the_knees_of_flux(oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["flux"]:
        assert kneedle(np.array(case["second_neighbour_distances_sorted"])) == case["knee_index"]


def test_a_knee_is_a_bulge_that_falls_by_more_than_a_step() -> None:
    """Turned around, 0 0 0 1 10 is 0, .9, 1, 1, 1 and its distance from the diagonal 0, .65, .5,
    .25, 0."""
    assert kneedle(np.array([0.0, 0, 0, 1, 10])) == 3
    assert kneedle(np.array([0.0, 9, 10, 10, 10])) == 4  # bent the other way: its end
    assert kneedle(np.array([0.0, 5, 10])) is None  # straight


def test_the_first_knee_from_the_upper_end_counts() -> None:
    """Distances fall from 0.4 by 0.2 and rise again to 0.6: the first is a knee, unlike the
    largest."""
    away = np.array([0.0, 0.4, 0.2, 0.1, 0.6, 0.3, 0.15, 0.0, 0.0])
    place = np.linspace(0, 1, 9)
    curve = (1 - (away + place))[::-1]
    assert kneedle(curve) == 9 - 1 - 1


@pytest.mark.parametrize("curve", [[], [1.0], [2.0, 2.0, 2.0]])
def test_a_flat_curve_has_no_knee(curve: list[float]) -> None:
    assert kneedle(np.array(curve)) is None
