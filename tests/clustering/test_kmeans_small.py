"""K-means of a few points, all restarts at once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.kmeans import kmeans_small
from fedkin.core.errors import MethodError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def planted(seed: int, clusters: int, each: int, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of width 0.1 whose centres are at least 4 apart, in shuffled order."""
    true_clusters = rng(seed).permutation(np.repeat(np.arange(clusters), each))
    centres = np.zeros((clusters, columns))
    centres[:, 0] = 4 * np.arange(clusters)
    centres[:, 1] = 4 * (np.arange(clusters) % 2)
    return centres[true_clusters] + rng(seed + 100).normal(
        scale=0.1, size=(len(true_clusters), columns)
    ), true_clusters


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    """Summed squared distances from the means."""
    return sum(
        float(((own - own.mean(axis=0)) ** 2).sum())
        for own in (points[labels == k] for k in np.unique(labels))
    )


@pytest.mark.parametrize(("clusters", "each"), [(2, 3), (3, 6), (5, 4), (9, 2), (11, 2)])
def test_planted_clusters_are_found(clusters: int, each: int) -> None:
    for seed in range(5):
        points, true_clusters = planted(seed, clusters, each)
        assert adjusted_rand_score(true_clusters, kmeans_small(points, clusters, rng(seed))) == 1


def test_as_good_as_scikit_learn_with_ten_restarts() -> None:
    """Sets without structure, where local optima abound: at most a tenth worse on average, cohorts
    of 8 to 24."""
    ratios = []
    for seed in range(30):
        draw = rng(seed)
        points = draw.normal(size=(int(draw.integers(8, 25)), int(draw.integers(1, 7))))
        clusters = int(draw.integers(2, 7))
        kmeans = KMeans(
            clusters,
            n_init=10,  # pyright: ignore[reportArgumentType]
            random_state=seed,
        )
        theirs = kmeans.fit_predict(points)
        ours = kmeans_small(points, clusters, rng(seed))
        ratios.append(inertia(points, ours) / inertia(points, theirs))
    assert np.mean(ratios) <= 1.1
    assert np.min(ratios) >= 0.9, (
        "far below the best of ten restarts: the comparison would be wrong"
    )


def test_each_point_is_nearest_to_its_clusters_mean() -> None:
    """What Lloyd's algorithm ends in."""
    points = rng(3).uniform(size=(40, 2))
    labels = kmeans_small(points, 6, rng(1))
    means = np.stack([points[labels == k].mean(axis=0) for k in range(6)])
    nearest = np.linalg.norm(points[:, None] - means, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(labels, nearest)


def test_the_same_state_of_the_generator_the_same_labels() -> None:
    points = rng(5).normal(size=(20, 3))
    np.testing.assert_array_equal(kmeans_small(points, 5, rng(1)), kmeans_small(points, 5, rng(1)))
    numberings = {kmeans_small(points, 5, rng(seed)).tobytes() for seed in range(10)}
    assert len(numberings) > 1, "starts are drawn"


def test_more_restarts_are_better_on_average() -> None:
    points = rng(3).uniform(size=(60, 2))
    one, many = (
        np.array(
            [
                inertia(points, kmeans_small(points, 8, rng(seed), restarts=count))
                for seed in range(8)
            ]
        )
        for count in (1, 40)
    )
    assert many.mean() < one.mean() and many.max() <= np.median(one)


def test_labels_are_integers_of_that_many_clusters() -> None:
    labels = kmeans_small(rng(0).normal(size=(20, 4)).astype(np.float32), 5, rng(0))
    assert labels.dtype == np.int64 and labels.shape == (20,)
    assert sorted(set(labels)) == [0, 1, 2, 3, 4]


def test_one_cluster() -> None:
    np.testing.assert_array_equal(kmeans_small(rng(0).normal(size=(4, 2)), 1, rng(0)), [0, 0, 0, 0])


def test_one_cluster_per_point() -> None:
    for seed in range(5):
        assert sorted(kmeans_small(np.array([[0.0], [1.0], [5.0], [5.1]]), 4, rng(seed))) == [
            0,
            1,
            2,
            3,
        ]


def test_points_that_coincide_share_a_cluster() -> None:
    points = np.array([[0.0, 1], [7, 7], [0, 1], [3, -9], [7, 7], [0, 1]])
    for seed in range(5):
        labels = kmeans_small(points, 3, rng(seed))
        assert adjusted_rand_score([0, 1, 0, 2, 1, 0], labels) == 1


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_any_scale(scale: float) -> None:
    points, true_clusters = planted(0, 4, 5)
    assert adjusted_rand_score(true_clusters, kmeans_small(scale * points, 4, rng(0))) == 1


def test_points_are_left_alone() -> None:
    points = rng(0).normal(size=(9, 2))
    kept = points.copy()
    kmeans_small(points, 3, rng(0))
    np.testing.assert_array_equal(points, kept)


@pytest.mark.parametrize(
    "points",
    [np.zeros((6, 2)), np.array([[0.0], [1.0], [0.0], [1.0]]), np.zeros((0, 2))],
    ids=["1", "2", "0"],
)
def test_fewer_distinct_points_than_clusters(points: np.ndarray) -> None:
    with pytest.raises(MethodError, match=rf"3 clusters.*of the {len(points)} points"):
        kmeans_small(points, 3, rng(0))
