"""FedGWC's rewards, matrix and splits, against the vectors of ``production.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.gaussian_weights import (
    affinity,
    davies_bouldin,
    rewards,
    split,
    update,
)

Oracle = Callable[[str], dict[str, Any]]
PART = "fedgwc"


def test_rewards_are_the_oracles(oracle: Oracle) -> None:
    """One case has two clients of equal size, which always earn the same."""
    for case in oracle("production")[PART]["rewards"]:
        found = rewards(np.array(case["losses"]), np.array(case["samples"]))
        np.testing.assert_allclose(found, case["normalised"], rtol=0, atol=1e-12)


def test_the_matrix_and_its_change_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")[PART]["updates"]:
        matrix = np.full((case["clients"], case["clients"]), case["start"])
        alpha = case["alpha"]
        mse = 1.0
        patience = 0
        for step in case["rounds"]:
            cohort = np.array(step["cohort"])
            reward = rewards(np.array(step["losses"]), np.array(step["samples"]))
            change = update(matrix, cohort, reward, alpha)
            mse = (1 - alpha) * mse + alpha * change
            patience = patience + 1 if mse < case["eps"] else 0
            np.testing.assert_allclose(matrix, step["matrix"], rtol=0, atol=1e-12)
            assert mse == pytest.approx(step["mse"], rel=0, abs=1e-12)
            assert patience == step["patience"]


def test_affinities_of_columns_and_rows_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")[PART]["affinity"]:
        matrix = np.array(case["matrix"])
        columns = affinity(matrix, case["gamma"])
        rows = affinity(matrix, case["gamma"], "rows")
        np.testing.assert_allclose(columns, case["as_coded_columns"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(rows, case["rows_instead"], rtol=0, atol=1e-12)


def test_splits_and_their_indices_are_the_oracles(oracle: Oracle) -> None:
    """One in two parts, one in four, and one that no index below 1 allows."""
    for case in oracle("production")[PART]["split"]:
        similar = affinity(np.array(case["matrix"]), case["gamma"])
        for parts, expected in case["davies_bouldin"].items():
            assert davies_bouldin(similar, int(parts))[0] == pytest.approx(expected, abs=1e-3)
        found = split(similar, max(case["tried"]))
        assert found.max() + 1 == case["clusters"]
        if case["labels"] is not None:
            assert adjusted_rand_score(found, case["labels"]) == 1


def test_equal_rewards_and_too_few_clients_are_no_split() -> None:
    equal = affinity(np.full((6, 6), 0.2), gamma=1.0)
    np.testing.assert_array_equal(equal, 1 - np.eye(6))
    assert not split(equal, most=1).any()
    assert not split(equal[:3, :3], most=4).any()


def earned(losses: np.ndarray, rounds: int = 2000) -> np.ndarray:
    """The mean of rewards of clients with these mean losses, in cohorts of 10."""
    rng = np.random.default_rng(0)
    N = len(losses)
    matrix = np.full((N, N), 1 / N**2)
    seen = np.zeros((N, N))
    for _ in range(rounds):
        cohort = rng.choice(N, 10, replace=False)
        drawn = losses[cohort][:, None] + rng.normal(0, 0.2, (10, 2))
        touched = np.ix_(cohort, cohort)
        seen[touched] += 1
        reward = rewards(drawn, np.ones(10))
        update(matrix, cohort, reward, 1 / seen[touched])
    return matrix


def test_groups_are_found_by_the_level_of_their_losses_and_not_without() -> None:
    """A reward depends on losses alone. Groups of other concepts with equal losses look like one
    federation, however long it trains."""
    groups = np.arange(40) // 20
    different = split(affinity(earned(1.0 + 0.8 * groups), 1.0), most=4)
    assert adjusted_rand_score(different, groups) > 0.9
    equal = split(affinity(earned(np.ones(40)), 1.0), most=4)
    assert adjusted_rand_score(equal, groups) < 0.1
