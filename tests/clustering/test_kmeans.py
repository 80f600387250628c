"""K-means as FedGroup's cold start uses it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.kmeans import distinct_rows, kmeans
from fedkin.core.errors import MethodError


def blobs(seed: int, clusters: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    true_clusters = np.repeat(np.arange(clusters), each)
    noise = np.random.default_rng(seed).normal(scale=0.1, size=(len(true_clusters), 2))
    return np.stack([true_clusters, true_clusters % 2], axis=1) * 5 + noise, true_clusters


def test_well_separated_points() -> None:
    points, true_clusters = blobs(0, 4, 15)
    assert adjusted_rand_score(true_clusters, kmeans(points, 4, seed=233)) == 1


def test_same_seed_same_labels() -> None:
    points = np.random.default_rng(0).normal(size=(60, 3))
    np.testing.assert_array_equal(kmeans(points, 5, seed=1), kmeans(points, 5, seed=1))


def test_more_restarts_are_never_worse() -> None:
    points = np.random.default_rng(3).uniform(size=(80, 2))

    def spread(labels: np.ndarray) -> float:
        return sum(
            ((points[labels == k] - points[labels == k].mean(axis=0)) ** 2).sum()
            for k in np.unique(labels)
        )

    one = [spread(kmeans(points, 8, seed=seed, restarts=1)) for seed in range(6)]
    assert spread(kmeans(points, 8, seed=0, restarts=40)) <= min(one) * 1.02
    assert max(one) > min(one), "a task without local optima would prove nothing"


def test_one_cluster_per_point() -> None:
    assert sorted(kmeans(np.array([[0.0], [1.0], [5.0]]), 3, seed=0)) == [0, 1, 2]


def test_one_cluster() -> None:
    np.testing.assert_array_equal(kmeans(np.array([[0.0], [1.0]]), 1, seed=0), [0, 0])


def test_fewer_distinct_points_than_clusters() -> None:
    with pytest.raises(MethodError, match=r"3 clusters.*only 1 of"):
        kmeans(np.ones((6, 3)), 3, seed=0)


def test_rows_are_counted_by_their_values() -> None:
    points = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    assert distinct_rows(points) == len(np.unique(points, axis=0)) == 3
