"""FedGWC: its rewards of pairs, when a cluster is split, and clients that come later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.clustering.gaussian_weights import rewards
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.methods.fedgwc import FedGWCState
from fedkin.simulation.engine import SimulatedWorld

STREAM = Stream(1, 1, "method")
LOCAL = fk.LocalTraining(lr=0.1, epochs=2)


def state_of(clients: int, *, matrix: np.ndarray | None = None) -> FedGWCState:
    """One cluster with all clients, before the first round or with rewards of all pairs."""
    start = np.full((clients, clients), 1 / clients**2)
    return FedGWCState(
        models=np.zeros((1, 650), np.float32),
        assignment=np.zeros(clients, np.int64),
        matrix=start if matrix is None else matrix,
        seen=np.full((clients, clients), int(matrix is not None)),
        mse=np.ones(1),
        patience=np.zeros(1, np.int64),
    )


def test_rounds_are_the_oracles(oracle: Callable[[str], dict[str, Any]]) -> None:
    (case,) = oracle("production")["fedgwc"]["updates"]
    method = fk.FedGWC(eps=case["eps"])
    state = state_of(case["clients"])
    for step in case["rounds"]:
        reward = rewards(np.array(step["losses"]), np.array(step["samples"]))
        state = method._learn(state, 0, np.array(step["cohort"]), reward)
        np.testing.assert_allclose(state.matrix, step["matrix"], rtol=0, atol=1e-12)
        assert state.mse[0] == pytest.approx(step["mse"], abs=1e-12)
        assert state.patience.tolist() == [step["patience"]]


def test_the_plain_mean_forgets_no_round() -> None:
    """Clients 0 and 1 meet twice, and client 0 earns 0.2 and then 0.6."""
    for mean, expected in ((True, 0.4), (False, 0.25 / 16 + 0.25 * 0.2 + 0.5 * 0.6)):
        method = fk.FedGWC(mean=mean)
        state = state_of(4)
        for reward in (0.2, 0.6):
            state = method._learn(state, 0, np.array([0, 1]), np.array([reward, 1 - reward]))
        assert state.matrix[0, 1] == pytest.approx(expected)
        assert state.matrix[0, 2] == 1 / 16


def test_a_round_copies_the_matrices_once() -> None:
    """Each cluster of a round changes the same copy, and the state before the round stays."""
    data = fk.data.digits(clients=12)
    world = SimulatedWorld(data, fk.models.mclr(data), LOCAL)
    start = replace(
        state_of(12),
        models=np.zeros((2, 650), np.float32),
        assignment=np.arange(12) % 2,
        mse=np.ones(2),
        patience=np.zeros(2, np.int64),
    )
    after = fk.FedGWC().round(world, start, np.arange(8), STREAM)
    assert (start.matrix == 1 / 144).all() and not start.seen.any()
    pairs = (np.arange(8)[:, None] - np.arange(8)) % 2 == 0
    assert (after.seen[:8, :8] == pairs).all() and after.seen.sum() == pairs.sum()
    assert ((after.matrix != 1 / 144)[:8, :8] <= pairs).all()
    again = fk.FedGWC()._learn(after, 0, np.array([0, 2]), np.array([0.5, 0.5]))
    assert again.matrix is after.matrix and again.seen is after.seen


def settled() -> tuple[SimulatedWorld, FedGWCState]:
    """Twelve clients in two groups by their rewards, whose matrix has settled. The last client has
    never replied."""
    data = fk.data.digits(clients=12)
    matrix = np.where(np.arange(12) < 6, 0.3, 0.1) * np.ones((12, 1))
    matrix += np.random.default_rng(0).normal(0, 0.003, matrix.shape)
    state = replace(state_of(12, matrix=matrix), patience=np.array([4]))
    seen = state.seen.copy()
    seen[11] = seen[:, 11] = 0
    return SimulatedWorld(data, fk.models.mclr(data)), replace(state, seen=seen)


METHOD = fk.FedGWC(gamma=1.0)


def test_a_split_copies_the_model_and_leaves_out_unknown_clients() -> None:
    world, state = settled()
    after = METHOD._split(world, state, 0, replied=3, cohort=3)
    assert after.assignment.tolist() == [0] * 6 + [1] * 5 + [UNASSIGNED]
    np.testing.assert_array_equal(after.models, np.repeat(state.models, 2, axis=0))
    assert after.mse.tolist() == [1, 1] and after.patience.tolist() == [0, 0]
    placed = METHOD.place(world, after, np.array([11]), STREAM)
    assert placed.assignment[11] in (0, 1)


def test_when_a_cluster_is_not_split() -> None:
    """Too early; too small for the cohort; or without an index below 1, and then mse starts
    again."""
    world, state = settled()
    early = replace(state, patience=np.array([3]))
    assert METHOD._split(world, early, 0, replied=3, cohort=3) is early
    assert METHOD._split(world, state, 0, replied=12, cohort=12) is state
    noise = np.random.default_rng(1).random((12, 12))
    alike = replace(state, matrix=noise, mse=np.full(1, 1e-6))
    kept = METHOD._split(world, alike, 0, replied=3, cohort=3)
    assert len(kept.models) == 1 and kept.mse.tolist() == [1] and kept.patience.tolist() == [0]
