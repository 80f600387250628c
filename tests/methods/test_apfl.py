"""APFL: a mix of the global model and a client's own, in a share that the client learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.apfl import APFL, APFLState
from fedkin.methods.fedavg import FedAvg
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.quadratics import quadratic_world

STREAM = Stream(7, 1, "round")
OWN = "clients/own_model"
SHARE = "clients/own_share"


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["personalisation"]:
        world = quadratic_world(case["A"], case["b"], case["w0"], LocalTraining(lr=case["lr"]))
        method = APFL(case["apfl"]["alpha0"])
        state = method.init(world, STREAM)
        v = np.array(case["v0"], np.float32)
        world.recall({OWN: v, f"{OWN}.kept": np.ones(len(v), bool)})
        for r, expected in enumerate(case["apfl"]["trace"]):
            state = method.round(world, state, np.arange(len(v)), STREAM.at(r))
            kept = world.memory()
            np.testing.assert_allclose(state.models[0], expected["w"], atol=3e-6)
            np.testing.assert_allclose(kept[OWN], expected["v"], atol=3e-6)
            np.testing.assert_allclose(kept[SHARE], expected["alpha"], atol=3e-6)
            share = kept[SHARE][:, None]
            np.testing.assert_allclose(
                share * kept[OWN] + (1 - share) * state.models, expected["served"], atol=3e-6
            )


WORK = LocalTraining(2, lr=0.5)


def world(work: LocalTraining = WORK, **options: Any) -> FakeWorld:
    """Gradients are w - target."""
    target = np.array([[8.0], [16.0], [4.0]], np.float32)
    return FakeWorld(target, np.array([1, 3, 6]), start=lambda _: np.zeros(1), work=work, **options)


def rounds(w: FakeWorld, cohorts: list[list[int]], **options: Any) -> APFLState:
    method = APFL(**options)
    state = method.init(w, STREAM)
    for r, cohort in enumerate(cohorts):
        state = method.round(w, state, np.array(cohort), STREAM.at(r))
    return state


def test_two_steps_by_hand() -> None:
    """w: 0 -> 4 -> 6. v: 0 + 0.5 * 0.5 * 8 = 2; the mix of 2 and 4 is 3, and v = 2 + 0.25 * 5 =
    3.25. Without the factor of the share v would go to 4 first; with w after its step in the mix,
    to 1.5 and then 2.53."""
    w = world()
    state = rounds(w, [[0]], adapt=False)
    np.testing.assert_allclose(state.models, [[6]])
    np.testing.assert_allclose(w.memory()[OWN], [[3.25], [0], [0]])


def test_the_share_moves_along_its_slope_where_the_round_begins() -> None:
    """v = 3.25, w = 6, their mix 4.625: slope (3.25 - 6) (4.625 - 8) = 9.28, and 0.5 - 0.01 * 9.28
    = 0.4072."""
    w = world()
    rounds(w, [[0]], share_lr=0.01)
    np.testing.assert_allclose(w.memory()[SHARE][0], 0.5)  # v was w: no slope
    w = world()
    rounds(w, [[0], [0]], share_lr=0.01)
    np.testing.assert_allclose(w.memory()[SHARE][0], 0.5 - 0.01 * 9.28125, rtol=1e-6)


def test_the_share_is_cut() -> None:
    w = world()
    rounds(w, [[0], [0]], share_lr=1.0)
    assert w.memory()[SHARE][0] == 0


def test_the_global_model_is_fedavgs() -> None:
    w = world()
    fedavg = FedAvg()
    cohort = np.arange(3)
    plain = fedavg.init(w, STREAM)
    for r in range(3):
        plain = fedavg.round(w, plain, cohort, STREAM.at(r))
    np.testing.assert_array_equal(rounds(world(), [[0, 1, 2]] * 3).models, plain.models)


def test_a_whole_share_is_training_alone() -> None:
    w = world()
    rounds(w, [[0, 1, 2]] * 20, share=1.0, adapt=False)
    np.testing.assert_allclose(w.memory()[OWN], w.target, rtol=1e-4)


def test_one_model_travels_each_way() -> None:
    w = world()
    rounds(w, [[0, 1]])
    assert (sum(w.ledger.down.values()), sum(w.ledger.up.values())) == (2 * 4, 2 * 4)


def test_clients_are_tested_with_the_mix() -> None:
    """Client 2, which never trained, with the global model, which is 14 after one full step of 8
    and 16."""
    w = world(work=LocalTraining(lr=1.0))
    state = rounds(w, [[0, 1]], share=0.25, adapt=False)
    own = w.memory()[OWN][:, 0]
    np.testing.assert_allclose(own, [2, 4, 0])
    losses = [(0.25 * 2 + 0.75 * 14 - 8) ** 2, (0.25 * 4 + 0.75 * 14 - 16) ** 2, (14 - 4) ** 2]
    np.testing.assert_allclose(score(w, state, 1).scores.loss, losses)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_lost_replies(how: str) -> None:
    w = world(**{how: frozenset({1})})  # type: ignore[arg-type]
    rounds(w, [[0, 1]])
    np.testing.assert_array_equal(w.memory()[f"{OWN}.kept"], [1, 0, 0])
    np.testing.assert_array_equal(w.memory()[f"{SHARE}.kept"], [1, 0, 0])


@pytest.mark.parametrize("bad", [{"share": 0.0}, {"share": 1.5}, {"share_lr": 0.0}])
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        APFL(**bad)
