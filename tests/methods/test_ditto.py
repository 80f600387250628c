"""Ditto: a model of each client's own, pulled to the model that it received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.ditto import Ditto, DittoState
from fedkin.methods.fedavg import FedAvg
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.quadratics import quadratic_world

STREAM = Stream(7, 1, "round")
MEMORY = "clients/own_model"


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["personalisation"]:
        world = quadratic_world(case["A"], case["b"], case["w0"], LocalTraining(lr=case["lr"]))
        method = Ditto(case["ditto"]["lam"])
        state = method.init(world, STREAM)
        v = np.array(case["v0"], np.float32)
        world.recall({MEMORY: v, f"{MEMORY}.kept": np.ones(len(v), bool)})
        for r, expected in enumerate(case["ditto"]["trace"]):
            state = method.round(world, state, np.arange(len(v)), STREAM.at(r))
            np.testing.assert_allclose(state.models[0], expected["w"], atol=3e-6)
            np.testing.assert_allclose(world.memory()[MEMORY], expected["v"], atol=3e-6)


WORK = LocalTraining(2, lr=0.5)


def world(work: LocalTraining = WORK, **options: Any) -> FakeWorld:
    """Gradients are w - target."""
    target = np.array([[8.0], [16.0], [4.0]], np.float32)
    return FakeWorld(target, np.array([1, 3, 6]), start=lambda _: np.zeros(1), work=work, **options)


def rounds(w: FakeWorld, cohorts: list[list[int]], **options: Any) -> DittoState:
    method = Ditto(**options)
    state = method.init(w, STREAM)
    for r, cohort in enumerate(cohorts):
        state = method.round(w, state, np.array(cohort), STREAM.at(r))
    return state


def test_two_steps_by_hand() -> None:
    """v: 0 -> 4 -> 4 + 2 - 0.5 (4 - 0) = 4, pulled to the 0 that was received: to the client's own
    solution 6 it would end elsewhere, and without a pull (the shallow-copy mistake) at 6."""
    w = world()
    state = rounds(w, [[0]])
    np.testing.assert_allclose(state.models, [[6]])
    np.testing.assert_allclose(w.memory()[MEMORY], [[4], [0], [0]])


def test_the_pull_is_to_the_model_received_in_this_round() -> None:
    """From v = 4 and w = 6: 4 + 2 + 1 = 7, and then 7 + 0.5 - 0.5 = 7."""
    w = world()
    rounds(w, [[0], [0]])
    np.testing.assert_allclose(w.memory()[MEMORY][0], [7])


def test_the_global_model_is_fedavgs() -> None:
    w = world()
    fedavg = FedAvg()
    cohort = np.arange(3)
    plain = fedavg.init(w, STREAM)
    for r in range(3):
        plain = fedavg.round(w, plain, cohort, STREAM.at(r))
    np.testing.assert_array_equal(rounds(world(), [[0, 1, 2]] * 3).models, plain.models)


def test_limits() -> None:
    """Without a pull each client trains alone."""
    w = world()
    rounds(w, [[0, 1, 2]] * 20, strength=0.0)
    np.testing.assert_allclose(w.memory()[MEMORY], w.target, rtol=1e-4)


def test_epochs_and_learning_rate_of_the_own_model() -> None:
    w = world()
    rounds(w, [[0]], own_epochs=1, own_lr=0.25)
    np.testing.assert_allclose(w.memory()[MEMORY][0], [2])


def test_one_model_travels_each_way() -> None:
    w = world()
    rounds(w, [[0, 1]])
    assert (sum(w.ledger.down.values()), sum(w.ledger.up.values())) == (2 * 4, 2 * 4)


def test_clients_are_tested_with_their_own_models() -> None:
    """Client 2, which never trained, with the global one."""
    w = world(work=LocalTraining(lr=1.0))
    state = rounds(w, [[0, 1]], strength=0.0)
    found = score(w, state, 1)
    np.testing.assert_allclose(found.scores.loss, [0, 0, (14 - 4) ** 2])


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_lost_replies(how: str) -> None:
    w = world(**{how: frozenset({1})})  # type: ignore[arg-type]
    rounds(w, [[0, 1]])
    np.testing.assert_array_equal(w.memory()[f"{MEMORY}.kept"], [1, 0, 0])


@pytest.mark.parametrize("bad", [{"strength": -1.0}, {"own_epochs": 0}, {"own_lr": 0.0}])
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Ditto(**bad)
