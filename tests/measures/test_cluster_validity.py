"""Within-cluster sum of squares, by hand and against K-means of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedkin.core.errors import MethodError
from fedkin.measures.cluster_validity import within_cluster_squares


def test_by_hand() -> None:
    """Cluster 7 has the mean (1, 2) and squares 1 + 4, 1 + 1, 0 + 1; cluster 3 the mean (6, 5) and
    1, 1. With medians, or divided by sizes, it would be another number."""
    points = np.array([[0, 0], [5, 5], [2, 3], [7, 5], [1, 3]], float)
    labels = np.array([7, 3, 7, 3, 7])
    assert within_cluster_squares(points, labels) == 5 + 2 + 1 + 1 + 1


def test_it_is_what_k_means_minimises() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3)) + 50
    fit = KMeans(4, n_init="auto", random_state=0)
    labels = np.asarray(fit.fit_predict(points), np.int64)
    assert within_cluster_squares(points, labels) == pytest.approx(fit.inertia_)
    single = points.astype(np.float32)
    assert within_cluster_squares(single, labels) == pytest.approx(fit.inertia_, rel=1e-5)


def test_single_points_have_none() -> None:
    assert within_cluster_squares(np.eye(3), np.arange(3)) == 0


@pytest.mark.parametrize(
    ("points", "labels"),
    [(np.zeros((0, 2)), []), (np.eye(2), [0]), (np.array([[np.nan]]), [0])],
)
def test_impossible_points_are_refused(points: np.ndarray, labels: list[int]) -> None:
    with pytest.raises(MethodError, match="a label for each"):
        within_cluster_squares(points, np.array(labels, np.int64))
