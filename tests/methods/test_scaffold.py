"""SCAFFOLD: control variates of both options, and the cases that break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.scaffold import SCAFFOLD, ScaffoldState
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.quadratics import quadratic_world
from tests.simulation.small_federation import SIZES, federation

STREAM = Stream(7, 1, "round")


@pytest.mark.parametrize("option", ["I", "II"])
def test_oracle(option: Any, oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["scaffold"]:
        work = LocalTraining(steps=case["local_steps"], lr=case["lr"])
        world = quadratic_world(case["A"], case["b"], case["x0"], work)
        method = SCAFFOLD(option, case["server_lr"])
        state = method.init(world, STREAM)
        for r, expected in enumerate(case["trace"][f"option_{option}"]):
            state = method.round(world, state, np.sort(expected["cohort"]), STREAM.at(r))
            np.testing.assert_allclose(state.models[0], expected["x"], atol=3e-6)
            np.testing.assert_allclose(state.control, expected["c"], atol=3e-6)
            np.testing.assert_allclose(
                world.memory()["clients/control_variate"], expected["c_i"], atol=3e-6
            )


WORK = LocalTraining(lr=0.5)


def world(work: LocalTraining = WORK, **options: Any) -> FakeWorld:
    """Gradients are w - target."""
    target = np.array([[2.0], [6.0], [4.0]], np.float32)
    return FakeWorld(target, np.array([1, 9, 5]), start=lambda _: np.zeros(1), work=work, **options)


def rounds(w: FakeWorld, cohorts: list[list[int]], **options: Any) -> ScaffoldState:
    method = SCAFFOLD(**options)
    state = method.init(w, STREAM)
    for r, cohort in enumerate(cohorts):
        state = method.round(w, state, np.array(cohort), STREAM.at(r))
    return state


@pytest.mark.parametrize("option", ["I", "II"])
def test_a_round_by_hand(option: str) -> None:
    """One step from 0: updates 1 and 3, their plain mean 2 (weighted by samples 2.8); c is -4, the
    cohort's mean gradient, times 2/3."""
    w = world(work=LocalTraining(lr=0.5, batch_size=10))
    state = rounds(w, [[0, 1]], option=option)
    np.testing.assert_allclose(state.models, [[2]])
    np.testing.assert_allclose(state.control, [-8 / 3])
    np.testing.assert_allclose(w.memory()["clients/control_variate"], [[-2], [-6], [0]])


def test_the_second_round_is_corrected() -> None:
    """From 2: client 0 steps by -0.5 (0 + 2 - 8/3), client 2 by -0.5 (-2 - 0 - 8/3)."""
    w = world(work=LocalTraining(lr=0.5, batch_size=10))
    state = rounds(w, [[0, 1], [0, 2]], option="II")
    np.testing.assert_allclose(state.models, [[2 + (1 / 3 + 7 / 3) / 2]], rtol=1e-6)
    np.testing.assert_allclose(w.memory()["clients/control_variate"], [[0], [-6], [-2]], atol=1e-6)
    np.testing.assert_allclose(state.control, [-8 / 3 + 2 / 3 * (2 - 2) / 2], rtol=1e-6)


def test_steps_are_batches_times_epochs() -> None:
    """c_i is the mean gradient of all the client's own steps, which are of other numbers for other
    clients."""
    data = federation()
    one = fk.SimulatedWorld(
        data, fk.models.mclr(data), LocalTraining(epochs=3, batch_size=10, lr=0.1)
    )
    method = SCAFFOLD()
    cohort = np.arange(len(SIZES))
    state = method.init(one, STREAM)
    start = state.models[0]
    for client in cohort[np.array(SIZES) > 0]:
        alone = fk.SimulatedWorld(data, fk.models.mclr(data), one.work)
        after = method.round(alone, state, np.array([client]), STREAM)
        steps = 3 * -(-SIZES[client] // 10)
        expected = (start - after.models[0]) / (steps * 0.1)
        np.testing.assert_allclose(
            alone.memory()["clients/control_variate"][client], expected, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_lost_replies(how: str) -> None:
    """Only those that replied count in |S|; a client whose training diverged keeps its control
    variate."""
    w = world(work=LocalTraining(lr=0.5, batch_size=10), **{how: frozenset({1})})
    state = rounds(w, [[0, 1]])
    np.testing.assert_allclose(state.models, [[1]])
    np.testing.assert_allclose(state.control, [-2 / 3])
    np.testing.assert_array_equal(w.memory()["clients/control_variate"], [[-2], [0], [0]])


def test_the_servers_learning_rate() -> None:
    np.testing.assert_allclose(rounds(world(), [[0, 1]], server_lr=0.25).models, [[0.5]])


def test_two_models_travel_each_way() -> None:
    w = world()
    rounds(w, [[0, 1]])
    assert (w.ledger.down, w.ledger.up) == ({"controlled": 2 * 2 * 4}, {"controlled": 2 * 2 * 4})


@pytest.mark.parametrize(
    "used",
    [{"momentum": 0.9}, {"optimizer": "adam"}, {"mu": 0.1}, {"clip_norm": 1.0}],
    ids=lambda used: next(iter(used)),
)
def test_option_ii_refuses_steps_that_are_no_gradients(used: dict[str, Any]) -> None:
    w = world(work=replace(LocalTraining(), **used))
    with pytest.raises(
        MethodError, match=rf"local {next(iter(used))}.*leave that out, or set method.option='I'"
    ):
        rounds(w, [])
    rounds(w, [], option="I")
