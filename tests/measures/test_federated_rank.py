"""The k-th smallest number of all clients, from histograms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.conformal import conformal_quantile, conformal_rank
from fedkin.measures.federated_rank import counts_up_to, federated_rank


def over(clients: list[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The sum of the clients' counts."""
    return lambda edges: np.sum([counts_up_to(values, edges) for values in clients], axis=0)


@pytest.mark.parametrize("rank", [1, 2, 17, 99, 100])
def test_it_is_the_pooled_one(rank: int) -> None:
    rng = np.random.default_rng(0)
    clients = [rng.normal(size=70), rng.normal(3, 1, size=30)]
    expected = np.sort(np.concatenate(clients))[rank - 1]
    found = federated_rank(over(clients), rank, low=-10.0, high=10.0)
    assert found == pytest.approx(expected, abs=20 / 1024**4 * 2)
    assert found >= expected - 1e-12
    coarse = federated_rank(over(clients), rank, -10.0, 10.0, bins=8, passes=2)
    assert coarse == pytest.approx(expected, abs=20 / 64)


def test_ties_and_the_ends_of_the_range() -> None:
    clients = [np.array([2.0, 2.0, 2.0]), np.array([2.0, 5.0])]
    assert federated_rank(over(clients), 1, 0.0, 8.0) == 2
    assert federated_rank(over(clients), 4, 0.0, 8.0) == 2
    assert federated_rank(over(clients), 5, 0.0, 8.0) == 5
    # 5 is above the public bound, and 2 below the other one.
    assert federated_rank(over(clients), 5, 0.0, 4.0) == math.inf
    assert federated_rank(over(clients), 1, 3.0, 8.0) == 3


def test_the_conformal_correction_of_a_federation() -> None:
    rng = np.random.default_rng(1)
    clients = [rng.exponential(size=n) for n in (4, 9, 21)]
    pooled = conformal_quantile(np.concatenate(clients), miss=0.1)
    found = federated_rank(over(clients), conformal_rank(34, miss=0.1), 0.0, 50.0)
    assert found == pytest.approx(pooled, abs=1e-9)
    few = [clients[0]]
    assert federated_rank(over(few), conformal_rank(4, miss=0.1), 0.0, 50.0) == math.inf


@pytest.mark.parametrize(
    ("rank", "low", "high", "words"),
    [(0, 0.0, 1.0, "rank"), (1, 1.0, 1.0, "low < high"), (1, -math.inf, 1.0, "finite")],
)
def test_impossible_options_are_refused(rank: int, low: float, high: float, words: str) -> None:
    with pytest.raises(MethodError, match=words):
        federated_rank(over([np.zeros(1)]), rank, low, high)
