"""Agglomerative clustering from distances, as FL+HC, FlexCFL's MADC and Sattler's CFL use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import AgglomerativeClustering

from fedkin.clustering.agglomerative import LINKAGES, agglomerative, best_silhouette
from fedkin.core.errors import MethodError
from fedkin.measures.cosine import cosine
from fedkin.measures.distances import pairwise

Oracle = Callable[[str], dict[str, Any]]
LINE = np.array([0.0, 1.0, 2.2, 10.0])  # gaps 1, 1.2, 7.8
DISTANCES = np.abs(LINE[:, None] - LINE)


def assert_same_partition(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_array_equal(a[:, None] == a, b[:, None] == b)


@pytest.mark.parametrize("case", range(4))
def test_flhc(oracle: Oracle, case: int) -> None:
    flhc = oracle("misc")["flhc"]
    expected = flhc["cases"][case]
    distances = pairwise(np.array(flhc["updates"]), expected["metric"])
    labels = agglomerative(
        distances, threshold=expected["distance_threshold"], linkage=expected["linkage"]
    )
    assert_same_partition(labels, np.array(expected["labels"]))
    again = agglomerative(distances, clusters=expected["n_clusters"], linkage=expected["linkage"])
    np.testing.assert_array_equal(again, labels)


def test_sattlers_bipartition(oracle: Oracle) -> None:
    case = oracle("others")["sattler"]
    updates = np.array(case["dW"])
    for similarity in (np.array(case["similarity"]), cosine(updates, updates)):
        labels = agglomerative(-similarity, clusters=2, linkage="complete")
        np.testing.assert_array_equal(labels, np.isin(np.arange(len(labels)), case["cluster1"]))


@pytest.mark.parametrize(
    ("linkage", "height"),  # at which the first three points of the line are one cluster
    [("single", 1.2), ("average", 1.7), ("complete", 2.2), ("ward", np.sqrt(4 / 3) * 1.7)],
)
def test_a_threshold_by_hand(linkage: str, height: float) -> None:
    """Ward: two clusters of p and q points merge at sqrt(2 p q / (p + q)) times the distance of
    their centres."""
    np.testing.assert_array_equal(
        agglomerative(DISTANCES, threshold=height + 1e-6, linkage=linkage), [0, 0, 0, 1]
    )
    np.testing.assert_array_equal(
        agglomerative(DISTANCES, threshold=height - 1e-6, linkage=linkage), [0, 0, 1, 2]
    )


def test_clusters_at_the_threshold_stay_apart() -> None:
    np.testing.assert_array_equal(agglomerative(DISTANCES, threshold=1.0), [0, 1, 2, 3])
    np.testing.assert_array_equal(agglomerative(DISTANCES, threshold=10.1), [0, 0, 0, 0])
    np.testing.assert_array_equal(agglomerative(DISTANCES, threshold=-1.0), [0, 1, 2, 3])


@pytest.mark.parametrize("linkage", ["complete", "average", "single"])
def test_negative_distances_and_thresholds(linkage: str) -> None:
    """Moving all distances by one number changes nothing but the heights."""
    for threshold in (0.5, 1.1, 3.0):
        expected = agglomerative(DISTANCES, threshold=threshold, linkage=linkage)
        result = agglomerative(DISTANCES - 5, threshold=threshold - 5, linkage=linkage)
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(
        agglomerative(DISTANCES - 5, threshold=-20.0, linkage=linkage), [0, 1, 2, 3]
    )


@pytest.mark.parametrize("linkage", LINKAGES)
@given(st.integers(0, 10_000), st.integers(2, 15), st.integers(1, 15))
def test_against_scikit_learn_on_the_points(linkage: str, seed: int, n: int, clusters: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 3))
    clusters = min(n, clusters)
    expected = AgglomerativeClustering(clusters, linkage=linkage).fit_predict(points)
    labels = agglomerative(squareform(pdist(points)), clusters=clusters, linkage=linkage)
    assert_same_partition(labels, expected)
    seen = list(dict.fromkeys(labels.tolist()))
    assert seen == list(range(clusters))  # numbered by first appearance


@pytest.mark.parametrize("linkage", LINKAGES)
def test_ward_and_all_others_take_equal_rows(linkage: str) -> None:
    np.testing.assert_array_equal(
        agglomerative(np.zeros((3, 3)), threshold=0.1, linkage=linkage), [0, 0, 0]
    )


def test_ward_needs_euclidean_distances() -> None:
    # The arms of a star: no such points.
    star = np.array([[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]], float)
    for distances in (star, -DISTANCES):
        with pytest.raises(MethodError, match="Euclidean"):
            agglomerative(distances, clusters=2, linkage="ward")


@pytest.mark.parametrize("linkage", LINKAGES)
def test_one_row(linkage: str) -> None:
    np.testing.assert_array_equal(agglomerative(np.zeros((1, 1)), clusters=1, linkage=linkage), [0])
    np.testing.assert_array_equal(
        agglomerative(np.zeros((1, 1)), threshold=0.5, linkage=linkage), [0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either clusters or a threshold, got clusters=None, threshold=None"),
        ({"clusters": 2, "threshold": 1.0}, "either clusters or a threshold"),
        ({"clusters": 5}, "the number of points, 4; got 5"),
        ({"clusters": 0}, "from 1 .*got 0"),
        ({"threshold": float("nan")}, "finite distance, got nan"),
        ({"threshold": float("inf")}, "finite distance, got inf"),
        ({"clusters": 2, "linkage": "wards"}, "unknown linkage 'wards'; did you mean 'ward'"),
    ],
)
def test_invalid_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        agglomerative(DISTANCES, **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_distances_must_be_finite(bad: float) -> None:
    distances = DISTANCES.copy()
    distances[2, 3] = bad
    with pytest.raises(MethodError, match=r"finite.*point 2"):
        agglomerative(distances, clusters=2)


def test_the_cut_of_the_highest_silhouette() -> None:
    """Three kinds of four: 0.1 within, 0.5 between, where two clusters would have less."""
    kind = np.repeat([0, 1, 2], 4)
    distances = np.where(kind[:, None] == kind, 0.1, 0.5)
    np.fill_diagonal(distances, 0)
    np.testing.assert_array_equal(best_silhouette(distances), kind)


def test_opposed_directions_are_as_far_as_unrelated_ones() -> None:
    """Two kinds at 0.6, and some at 2 from both, which must not hide that."""
    kind = np.repeat([0, 1, 2], 6)
    distances = np.where(kind[:, None] == kind, 0.1, 0.6)
    distances[(kind[:, None] == 2) ^ (kind == 2)] = 2.0
    np.fill_diagonal(distances, 0)
    np.testing.assert_array_equal(best_silhouette(distances), kind)


def test_without_structure_there_is_one_cluster() -> None:
    distances = np.full((12, 12), 0.8) + 0.01 * np.random.default_rng(0).random((12, 12))
    assert set(best_silhouette((distances + distances.T) / 2)) == {0}
    assert best_silhouette(np.array([[0, 1.0], [1.0, 0]])).tolist() == [0, 0]
