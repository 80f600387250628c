"""K-means in NumPy: labels equal scikit-learn's, and close decisions are left to scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedkin.clustering.kmeans import kmeans
from fedkin.clustering.lloyd import CloseDecision, lloyd_labels


def sklearn_labels(points, clusters, seed, max_iter, weights):
    restarts: Any = 10
    fit = KMeans(clusters, n_init=restarts, max_iter=max_iter, random_state=seed)
    return fit.fit_predict(points, sample_weight=weights)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kind", "least"), [(np.float64, 100), (np.float32, 60)])
def test_labels_equal_those_of_scikit_learn(kind: type, least: int) -> None:
    rng = np.random.default_rng(0)
    compared = 0
    for seed in range(120):
        n = int(rng.integers(10, 120))
        clusters = int(rng.integers(2, 8))
        points = rng.standard_normal((n, int(rng.integers(2, 9))))
        if seed % 3 == 0:  # the embedding of FedGroup has points of this kind
            points = (1 - points / np.linalg.norm(points, axis=1, keepdims=True)) / 2
        points = points.astype(kind)
        weights = rng.random(n) if seed % 4 == 0 else None
        max_iter = (1, 2, 20, 300)[seed % 4]
        try:
            ours = lloyd_labels(points, clusters, seed, 10, max_iter, weights)
        except CloseDecision:
            continue
        compared += 1
        expected = sklearn_labels(points, clusters, seed, max_iter, weights)
        np.testing.assert_array_equal(ours, expected)
    assert compared >= least


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(np.array([[0.0], [1.0], [2.0]]), id="a point as near to two centres"),
        pytest.param(np.array([[0.0, np.nan], [1.0, 0.0]]), id="not a number"),
        pytest.param(np.array([[0.0, 1e300], [1.0, 0.0]]), id="too large to square"),
    ],
)
def test_close_decisions_are_refused(points) -> None:
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(CloseDecision):
        lloyd_labels(points, 2, 0, 10, 20, None)


def test_an_empty_cluster_is_refused() -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((6, 2))
    with pytest.raises(CloseDecision):
        # The points' weight lies in one point, so another centre gets none.
        lloyd_labels(points, 3, 0, 10, 20, np.array([1.0, 0, 0, 0, 0, 0]))


def test_scikit_learn_takes_close_decisions() -> None:
    points = np.array([[0.0], [1.0], [2.0]])
    expected = sklearn_labels(points, 2, 0, 20, None)
    np.testing.assert_array_equal(kmeans(points, 2, seed=0), expected)


def test_few_points_need_no_import_of_scikit_learn() -> None:
    code = (
        "import sys, numpy as np\n"
        "from fedkin.clustering.kmeans import kmeans\n"
        "kmeans(np.random.default_rng(0).standard_normal((30, 3)), 3, seed=0)\n"
        "assert 'sklearn' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
