"""pFedMe: training on Moreau envelopes; clients are tested with the minimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.schedule import Schedule
from fedkin.core.training import LocalTraining
from fedkin.methods.pfedme import PFedMe, PFedMeState
from fedkin.run.metrics.accuracy import score
from fedkin.simulation.fake_world import FakeWorld
from tests.methods.quadratics import quadratic_world

STREAM = Stream(7, 1, "round")
OWN = "clients/own_model"


def test_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    for case in oracle("methods2")["personalisation"]:
        given = case["pfedme"]
        work = LocalTraining(given["local_rounds"], lr=given["lr"])
        world = quadratic_world(case["A"], case["b"], case["w0"], work)
        method = PFedMe(given["lam"], given["inner_steps"], given["inner_lr"], given["beta"])
        state = method.init(world, STREAM)
        for r, expected in enumerate(given["trace"]):
            state = method.round(world, state, np.arange(len(case["b"])), STREAM.at(r))
            np.testing.assert_allclose(state.models[0], expected["w"], atol=1e-6)
            np.testing.assert_allclose(world.memory()[OWN], expected["theta"], atol=1e-6)


WORK = LocalTraining(1, lr=0.25)


def world(work: LocalTraining = WORK, **options: Any) -> FakeWorld:
    """Gradients are w - target."""
    target = np.array([[8.0], [16.0], [4.0]], np.float32)
    return FakeWorld(target, np.array([1, 3, 6]), start=lambda _: np.zeros(1), work=work, **options)


def rounds(
    w: FakeWorld,
    cohorts: list[list[int]],
    strength: float = 2.0,
    own_steps: int = 2,
    own_lr: float = 0.25,
    **options: Any,
) -> PFedMeState:
    method = PFedMe(strength=strength, own_steps=own_steps, own_lr=own_lr, **options)
    state = method.init(w, STREAM)
    for r, cohort in enumerate(cohorts):
        state = method.round(w, state, np.array(cohort), STREAM.at(r))
    return state


def test_a_step_by_hand() -> None:
    """theta: 0 -> 0.25 * 8 = 2 -> 2 + 0.25 (6 - 2 * 2) = 2.5; w = 0 + 0.25 * 2 * 2.5 = 1.25. A pull
    to the old theta, not to w, would give 3.5."""
    w = world()
    state = rounds(w, [[0]])
    np.testing.assert_allclose(state.models, [[1.25]])
    np.testing.assert_allclose(w.memory()[OWN], [[2.5], [0], [0]])


def test_the_servers_step() -> None:
    """The means of two clients' ways 1.25 and 2.5, one and three samples: 2.1875,
    and twice that."""
    np.testing.assert_allclose(rounds(world(), [[0, 1]]).models, [[2.1875]])
    np.testing.assert_allclose(rounds(world(), [[0, 1]], beta=2.0).models, [[4.375]])


def test_one_model_travels_each_way() -> None:
    w = world()
    rounds(w, [[0, 1]])
    assert (sum(w.ledger.down.values()), sum(w.ledger.up.values())) == (2 * 4, 2 * 4)


def test_clients_are_tested_with_the_minimisers() -> None:
    """Client 2, which never trained, with the global model."""
    w = world()
    state = rounds(w, [[0, 1]])
    losses = [(2.5 - 8) ** 2, (5 - 16) ** 2, (2.1875 - 4) ** 2]
    np.testing.assert_allclose(score(w, state, 1).scores.loss, losses)


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_lost_replies(how: str) -> None:
    w = world(**{how: frozenset({1})})  # type: ignore[arg-type]
    rounds(w, [[0, 1]])
    np.testing.assert_array_equal(w.memory()[f"{OWN}.kept"], [1, 0, 0])


RISING = Schedule("linear", length=4, end=8.0)


@pytest.mark.parametrize(
    ("work", "rate"),
    [
        (LocalTraining(lr=1.0), "1"),
        (LocalTraining(lr=0.2, schedule=RISING), r"1\.6"),  # 0.2 in the first round
        (LocalTraining(lr=0.2, step_schedule=RISING), r"1\.6"),
        (LocalTraining(lr=1.0, schedule=Schedule("constant", warmup=5, warmup_start=0.1)), "1"),
        (LocalTraining(lr=1e-3, schedule=Schedule("exponential", gamma=1.1)), "inf"),
    ],
)
def test_a_rate_that_diverges_is_refused(work: LocalTraining, rate: str) -> None:
    with pytest.raises(
        MethodError,
        match=rf"strength 2 diverges at a learning rate of {rate}, .*schedules below 1 ",
    ):
        PFedMe(strength=2.0).init(world(work=work), STREAM)


def test_rates_that_fall_are_not_refused() -> None:
    PFedMe(strength=2.0).init(
        world(work=LocalTraining(lr=0.9, schedule=Schedule("cosine", length=5))), STREAM
    )


def test_a_rate_at_which_w_leaps_over_theta_converges() -> None:
    """eta lambda = 1.9, on one client whose loss is (w - 8)^2 / 2: the inner steps reach theta."""
    w = world(work=LocalTraining(1, lr=0.95))
    state = rounds(w, [[0]] * 40, own_steps=60)
    np.testing.assert_allclose(state.models, [[8.0]], rtol=1e-5)


def test_inner_steps_that_diverge_are_refused() -> None:
    with pytest.raises(
        MethodError, match=r"own_lr 0\.2 with strength 10: the inner steps diverge.* below 0\.2,"
    ):
        PFedMe(strength=10.0, own_lr=0.2)
    PFedMe(strength=10.0, own_lr=0.19)


@pytest.mark.parametrize(
    "bad", [{"strength": 0.0}, {"own_steps": 0}, {"own_lr": 0.0}, {"beta": 0.0}]
)
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        PFedMe(**bad)
