"""The score of a threshold, against the vectors of ``production.json`` and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.measures.threshold_score import threshold_score

Oracle = Callable[[str], dict[str, Any]]


def labels_of(clusters: list[list[int]]) -> np.ndarray:
    """The cluster of each client."""
    labels = np.zeros(sum(map(len, clusters)), np.int64)
    for number, members in enumerate(clusters):
        labels[members] = number
    return labels


def test_all_candidates_of_the_vector(oracle: Oracle) -> None:
    vectors = oracle("production")["feddag_single_encoder"]
    search = vectors["threshold_search"]
    distances = np.array(search["distances"])
    totals = list[float]()
    for candidate in search["candidates"]:
        labels = labels_of(candidate["clusters"])
        score = threshold_score(distances, labels, gamma=search["gamma"], tau=search["tau"])
        assert score.distances == pytest.approx(candidate["L1"], abs=vectors["tolerance"])
        assert score.sizes == pytest.approx(candidate["L2"], abs=vectors["tolerance"])
        totals.append(score.total())
        assert totals[-1] == pytest.approx(candidate["loss_lambda_0.01"], abs=vectors["tolerance"])
    # Clusters of one client each have the lowest score.
    assert np.argmin(totals) == 0


def test_small_clusters_cost_by_hand() -> None:
    """Sizes 4, 4 and 1: mean 3, standard deviation sqrt(2). The third cluster is 2 - sqrt(2) / 2
    too small."""
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
    score = threshold_score(np.zeros((9, 9)), labels, gamma=0.5, tau=2.0)
    expected = (2 + np.exp((2 - np.sqrt(2) / 2) / 2)) / 3
    assert score == (0.0, pytest.approx(expected))
