"""Samples that stay on the devices while the same clients train."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import SGD
from fedkin.models import mlp
from fedkin.simulation import trainer
from fedkin.simulation.devices import local_devices, mesh_of
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.repeated_samples import RepeatedSamples
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation, models

SOME, OTHERS = np.array([0, 3, 5]), np.array([1, 3, 6])


def updates(cohorts: list[np.ndarray], fresh: bool) -> list[bytes]:
    """The updates of rounds with these cohorts; ``fresh``: each by a world of its own."""
    data, made = federation(), []
    model = mlp(data, hidden=4)
    world = SimulatedWorld(data, model, SGD(epochs=2, batch_size=10, lr=0.1))
    for round, cohort in enumerate(cohorts):
        used = SimulatedWorld(data, model, SGD(epochs=2, batch_size=10, lr=0.1)) if fresh else world
        index = np.arange(len(cohort)) % 2
        made.append(train(used, models(model), cohort, index, stream=Stream(3, round)).update.tobytes())
    return made


@pytest.mark.parametrize(
    "cohorts", [[EVERYONE] * 4, [SOME, SOME, OTHERS, SOME, SOME, SOME], [SOME, SOME[::-1].copy(), SOME], [SOME, OTHERS]]
)
def test_updates_are_those_of_samples_gathered_anew(cohorts: list[np.ndarray]) -> None:
    assert updates(cohorts, fresh=False) == updates(cohorts, fresh=True)


def test_rows_may_move_to_another_device_between_calls() -> None:
    """The same clients with other numbers of steps are dealt to the devices in another way."""
    data, work = federation(), SGD(batch_size=10, lr=0.1)
    model, index = mlp(data, hidden=4), np.zeros(3, np.int64)
    kept = SimulatedWorld(data, model, work)._trainer
    for round, steps in enumerate(((9, 1, 1), (1, 1, 9), (1, 9, 1), (9, 1, 1), (9, 1, 1), (1, 1, 9))):
        call = (models(model), SOME, index, work, np.array(steps), Stream(3, round))
        fresh = SimulatedWorld(data, model, work)._trainer
        assert kept.train(*call).update.tobytes() == fresh.train(*call).update.tobytes()


def test_samples_are_sent_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(trainer, "has_room", lambda *_: False)  # as on a processor, wherever this runs
    stack = trainer.stack_plans
    monkeypatch.setattr(trainer, "stack_plans", lambda plans: given.append(plans[0].x is not None) or stack(plans))
    updates([SOME, SOME, SOME, SOME, OTHERS, SOME], fresh=False)
    assert given == [True, True, False, False, True, True]


def test_nothing_is_kept_of_cohorts_that_change() -> None:
    kept, mesh = RepeatedSamples(), mesh_of(local_devices(1))
    one, other = np.ones((1, 4, 2), np.float32), np.zeros((1, 4, 2), np.float32)
    for clients, samples in ((SOME, one), (OTHERS, other), (SOME, one)):
        assert not kept.known([clients])
        assert kept.on_devices(mesh, samples) is samples
    assert not kept.known([SOME])
    stored = kept.on_devices(mesh, one)
    assert kept.known([SOME]) and kept.on_devices(mesh, None) is stored
    np.testing.assert_array_equal(stored, one)
