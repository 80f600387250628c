"""FedSim's objectives with and without clusters (eqs. 5 to 12), by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.cluster_objectives import objectives_of_losses

LOSSES = np.array([1.0, 3.0, 2.0, 10.0])


def test_by_hand() -> None:
    """F_c = (2, 2, 10), so F_G = 14/3 and F_O = 4: the inequality of eq. 11 does not hold. Weighted
    by the number of clients, F_G would equal F_O."""
    found = objectives_of_losses(LOSSES, np.array([0, 0, 1, 2]))
    assert found.clusters.tolist() == [2, 2, 10]
    assert found.without_clusters == 4
    assert found.with_clusters == pytest.approx(14 / 3)
    assert found.regularisation == pytest.approx(-2 / 3)


def test_the_inequality_holds_where_small_clusters_have_small_losses() -> None:
    """F_c = (1, 5)."""
    found = objectives_of_losses(LOSSES, np.array([0, 1, 1, 1]))
    assert found.clusters.tolist() == [1, 5]
    assert (found.with_clusters, found.regularisation) == (3, 1)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 2, 3]])
def test_lambda_is_zero_with_one_cluster_or_equal_sizes(labels: list[int]) -> None:
    assert objectives_of_losses(LOSSES, np.array(labels)).regularisation == 0


def test_numbers_without_clients_are_no_clusters() -> None:
    """A cluster of mean 0 would make F_G smaller."""
    found = objectives_of_losses(LOSSES, np.array([4, 4, 7, 7]))
    assert found.clusters.tolist() == [2, 6]


def test_the_expectation_over_random_clusters_is_fedavgs_objective() -> None:
    """E(F_R) over all assignments with sizes 1 and 3 (eq. 10)."""
    every = [
        objectives_of_losses(LOSSES, np.array(labels)).with_clusters
        for labels in itertools.product((0, 1), repeat=4)
        if sum(labels) == 3
    ]
    assert len(every) == 4 and np.mean(every) == pytest.approx(4)


def test_no_clients() -> None:
    with pytest.raises(MethodError, match="at least one client"):
        objectives_of_losses(np.zeros(0), np.zeros(0, np.int64))
