"""FedProx: a proximal pull on the client, and partial work from those that run out of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.fedprox import FedProx
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.train import Train

STREAM = Stream(7, 1, "round")
COHORT = np.arange(2)


class RecordingWorld(FakeWorld):
    """A fake world that remembers the local work it was asked for."""

    asked: LocalTraining

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        assert isinstance(task, Train)
        self.asked = task.work
        return super().run(task, clients, stream)


def world(epochs: int = 2) -> RecordingWorld:
    target = np.array([[2, 0], [0, 4]], np.float32)
    return RecordingWorld(
        target,
        np.array([10, 30]),
        LocalTraining(epochs=epochs, lr=0.5),
        start=lambda _: np.zeros(2),
    )


def test_two_steps_by_hand() -> None:
    """Toward 2 from 0 with lr 0.5, mu 0.5: 0 -> 1, then 1 - 0.5 ((1 - 2) + 0.5 (1 - 0)) = 1.25 (mu
    0 gives 1.5)."""
    w = world()
    state = FedProx(mu=0.5).round(w, FedProx(mu=0.5).init(w, STREAM), COHORT, STREAM)
    np.testing.assert_allclose(state.models, [[0.25 * 1.25, 0.75 * 2.5]], rtol=1e-6)


def test_mu_is_one_by_default() -> None:
    assert FedProx().mu == 1


def test_stragglers_send_their_partial_work() -> None:
    w = world()
    FedProx(mu=0.25).round(w, FedProx(mu=0.25).init(w, STREAM), COHORT, STREAM)
    assert w.asked.partial and w.asked.mu == 0.25


def test_fedavg_drops_its_stragglers() -> None:
    w = world()
    FedAvg().round(w, FedAvg().init(w, STREAM), COHORT, STREAM)
    assert not w.asked.partial and w.asked.mu == 0


def test_the_rest_of_the_work_is_the_runs_own() -> None:
    w = world(epochs=3)
    FedProx().round(w, FedProx().init(w, STREAM), COHORT, STREAM)
    assert (w.asked.epochs, w.asked.lr, w.asked.batch_size) == (3, 0.5, w.work.batch_size)


def test_without_the_pull_it_is_fedavg() -> None:
    w = world()
    start = FedAvg().init(w, STREAM)
    plain = FedAvg().round(w, start, COHORT, STREAM)
    np.testing.assert_array_equal(
        FedProx(mu=0.0).round(w, start, COHORT, STREAM).models, plain.models
    )


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf")])
def test_refuses_a_pull_that_cannot_be(mu: float) -> None:
    with pytest.raises(FedkinError, match="mu"):
        FedProx(mu=mu)
