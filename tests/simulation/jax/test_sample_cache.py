"""Samples that stay on the devices while the same clients train."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import SGD
from fedkin.models import mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax import trainer
from fedkin.simulation.jax.devices import local_devices, mesh_of
from fedkin.simulation.jax.sample_cache import RepeatedSamples
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation, models

SOME = np.array([0, 3, 5])
OTHERS = np.array([1, 3, 6])


def updates(cohorts: list[np.ndarray], fresh: bool) -> list[bytes]:
    """The updates of rounds with these cohorts; ``fresh``: each by a new world."""
    data = federation()
    made = []
    model = mlp(data, hidden=4)
    world = SimulatedWorld(data, model, SGD(epochs=2, batch_size=10, lr=0.1))
    for round, cohort in enumerate(cohorts):
        used = SimulatedWorld(data, model, SGD(epochs=2, batch_size=10, lr=0.1)) if fresh else world
        index = np.arange(len(cohort)) % 2
        made.append(
            train(used, models(model), cohort, index, stream=Stream(3, round)).update.tobytes()
        )
    return made


@pytest.mark.parametrize(
    "cohorts",
    [
        [EVERYONE] * 4,
        [SOME, SOME, OTHERS, SOME, SOME, SOME],
        [SOME, SOME[::-1].copy(), SOME],
        [SOME, OTHERS],
    ],
)
def test_updates_equal_updates_with_samples_gathered_again(cohorts: list[np.ndarray]) -> None:
    assert updates(cohorts, fresh=False) == updates(cohorts, fresh=True)


def test_rows_may_move_to_another_device_between_calls() -> None:
    """The same clients with other numbers of steps are dealt to the devices in another way."""
    data = federation()
    work = SGD(batch_size=10, lr=0.1)
    model = mlp(data, hidden=4)
    index = np.zeros(3, np.int64)
    kept = SimulatedWorld(data, model, work)._trainer
    for round, steps in enumerate(
        ((9, 1, 1), (1, 1, 9), (1, 9, 1), (9, 1, 1), (9, 1, 1), (1, 1, 9))
    ):
        call = TrainCall(
            models=models(model),
            clients=SOME,
            model_index=index,
            work=work,
            num_steps=np.array(steps),
            stream=Stream(3, round),
        )
        fresh = SimulatedWorld(data, model, work)._trainer
        assert kept.train(call).update.tobytes() == fresh.train(call).update.tobytes()


def test_samples_are_sent_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    # As on a processor, wherever this runs.
    monkeypatch.setattr(trainer, "has_room", lambda *_, **__: False)
    stack = trainer.stack_plans
    monkeypatch.setattr(
        trainer,
        "stack_plans",
        lambda plans, x, *more: given.append(x is not None) or stack(plans, x, *more),
    )
    updates([SOME, SOME, SOME, SOME, OTHERS, SOME], fresh=False)
    assert given == [True, True, False, False, True, True]


def call(
    kept: RepeatedSamples, clients: np.ndarray, samples: np.ndarray | None
) -> tuple[bool, Any]:
    """Whether the devices had the samples of a call, and the samples that it trains on."""
    own = kept.begin([clients])
    return own.samples is not None, kept.on_devices(own, mesh_of(local_devices(1)), samples)


def test_nothing_is_kept_of_cohorts_that_change() -> None:
    kept = RepeatedSamples()
    one = np.ones((1, 4, 2), np.float32)
    other = np.zeros((1, 4, 2), np.float32)
    for clients, samples in ((SOME, one), (OTHERS, other), (SOME, one)):
        repeated, used = call(kept, clients, samples)
        assert not repeated and used is samples
    repeated, stored = call(kept, SOME, one)
    assert not repeated
    repeated, used = call(kept, SOME, None)
    assert repeated and used is stored
    np.testing.assert_array_equal(stored, one)


def test_calls_of_two_threads_do_not_mix_their_samples() -> None:
    """Between the two steps of a call comes a whole call of other clients."""
    kept = RepeatedSamples()
    mesh = mesh_of(local_devices(1))
    samples = {"some": np.ones((1, 4, 2), np.float32), "others": np.zeros((1, 4, 2), np.float32)}
    call(kept, SOME, samples["some"])
    second = kept.begin([SOME])
    for _ in range(2):
        call(kept, OTHERS, samples["others"])
    np.testing.assert_array_equal(kept.on_devices(second, mesh, samples["some"]), samples["some"])
    third = kept.begin([SOME])
    repeated, used = call(kept, OTHERS, samples["others"])
    assert not repeated and used is samples["others"]
    np.testing.assert_array_equal(kept.on_devices(third, mesh, None), samples["some"])


def test_calls_of_other_clients_within_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on several threads: while one call gathers its samples,
    two of other clients come and go."""
    monkeypatch.setattr(trainer, "has_room", lambda *_, **__: False)
    data = federation()
    work = SGD(batch_size=10, lr=0.1)
    model = mlp(data, hidden=4)
    stack = trainer.stack_plans
    world = SimulatedWorld(data, model, work)
    first = np.zeros(3, np.int64)

    def update(used: SimulatedWorld, clients: np.ndarray, round: int) -> bytes:
        return train(
            used, models(model)[:1], clients, first, stream=Stream(3, round)
        ).update.tobytes()

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr(trainer, "stack_plans", stack)
        for round in (10, 11):
            assert update(world, OTHERS, round) == expected[round]
        return stack(*arguments)

    cohorts = {1: SOME, 2: SOME, 3: SOME, 4: SOME, 10: OTHERS, 11: OTHERS}
    expected = {t: update(SimulatedWorld(data, model, work), own, t) for t, own in cohorts.items()}
    assert update(world, SOME, 1) == expected[1]
    monkeypatch.setattr(trainer, "stack_plans", interrupted)  # while its samples are to be kept
    assert update(world, SOME, 2) == expected[2]
    for _ in range(2):
        assert update(world, SOME, 3) == expected[3]
    monkeypatch.setattr(trainer, "stack_plans", interrupted)  # while they are on the devices
    assert update(world, SOME, 4) == expected[4]
