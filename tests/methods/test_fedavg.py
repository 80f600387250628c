"""FedAvg on two quadratic clients; one epoch of lr 0.5 goes half the way from the model to the
client's target."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.methods.fedavg import FedAvg
from fedkin.simulation.fake_world import FakeWorld

TARGET = np.array([[2, 0], [0, 4], [8, 8]], np.float32)
STREAM = Stream(7, 1, "round")


def world(**options: Any) -> FakeWorld:
    return FakeWorld(TARGET, np.array([10, 30, 60]), start=lambda _: np.zeros(2), **options)


def test_starts_with_one_model_for_everybody() -> None:
    state = FedAvg().init(world(), STREAM)
    np.testing.assert_array_equal(state.models, [[0, 0]])
    assert state.models.dtype == np.float32
    assert len(state.assignment) == 3


def test_a_round_by_hand() -> None:
    """Updates (1, 0) and (0, 2) with weights 10 and 30: (10, 60) / 40."""
    w = world()
    state = FedAvg().round(w, FedAvg().init(w, STREAM), np.array([0, 1]), STREAM)
    np.testing.assert_allclose(state.models, [[0.25, 1.5]], rtol=1e-6)


def test_the_next_round_starts_from_there() -> None:
    """Client 2 alone: half the way from (0.25, 1.5) to (8, 8)."""
    w = world()
    state = FedAvg().round(w, FedAvg().init(w, STREAM), np.array([0, 1]), STREAM)
    state = FedAvg().round(w, state, np.array([2]), STREAM.at(2))
    np.testing.assert_allclose(state.models, [[4.125, 4.75]], rtol=1e-6)


def test_weights_are_those_that_answered() -> None:
    w = world(silent=frozenset({1}), garbage=frozenset({2}))
    state = FedAvg().round(w, FedAvg().init(w, STREAM), np.arange(3), STREAM)
    np.testing.assert_allclose(state.models, [[1, 0]], rtol=1e-6)


def test_newcomers_join_the_one_cluster() -> None:
    w = world()
    state = FedAvg().init(w, STREAM)
    state = FedAvg().place(w, state, np.flatnonzero(state.assignment < 0), STREAM)
    np.testing.assert_array_equal(state.assignment, [0, 0, 0])
