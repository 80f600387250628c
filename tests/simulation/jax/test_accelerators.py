"""What an accelerator does otherwise, on a CPU: samples stay on the device, clients train side by
side."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from fedkin.core.train_call import TrainCall
from fedkin.models import mclr
from fedkin.simulation.batching import sequential_batches
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax import devices, trainer
from fedkin.simulation.jax.devices import fastest_lanes, has_room, local_devices, rows_by_device
from fedkin.simulation.jax.trainer import JaxTrainer
from tests.simulation.small_federation import EVERYONE
from tests.simulation.test_bitwise_equality import START, assert_same_rows, world
from tests.simulation.training_digests import DATA, MODEL, STREAM, WHICH, WORK, trained


def test_samples_that_stay_on_the_device_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gathered = trained(world())
    monkeypatch.setattr(trainer, "has_room", lambda *_, **__: True)
    kept: SimulatedWorld = world()
    assert_same_rows(gathered, trained(kept))
    own: Any = kept._trainer
    [samples] = own._kept.values()
    trained(kept)
    assert own._kept[next(iter(own._kept))] is samples  # not sent again


def test_an_accelerator_keeps_samples_that_fit_a_quarter_of_its_memory() -> None:
    def device(**stats: int) -> Any:
        return SimpleNamespace(platform="gpu", memory_stats=lambda: stats)

    assert has_room(device(bytes_limit=4000), 1000) and not has_room(device(bytes_limit=4000), 1001)
    assert has_room(device(), 2**31) and not has_room(device(), 2**31 + 1)
    assert not has_room(jax.local_devices(backend="cpu")[0], 1)


def test_rows_of_about_the_same_work_are_side_by_side() -> None:
    sizes = [3, 90, 20, 41, 7, 88, 21]
    batches = [sequential_batches(size, 1) for size in sizes]
    for count in (1, 2):
        owned = rows_by_device(batches, count, lanes=4)
        assert sorted(np.concatenate(owned).tolist()) == list(range(7))
        assert all((np.diff([sizes[row] for row in rows]) <= 0).all() for rows in owned)
    assert [rows.tolist() for rows in rows_by_device(batches, 1)] == [list(range(7))]


def test_the_fastest_number_of_lanes_is_taken_and_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "_chosen", {})
    now = [0.0]
    calls = []

    def train(lanes: int) -> None:
        # The first call compiles.
        now[0] += 100 if lanes not in calls else {1: 3.0, 8: 1.0, 32: 2.0}[lanes]
        calls.append(lanes)

    model = mclr(DATA)
    assert fastest_lanes(model, 7, train, lambda: now[0]) == 1 and not calls  # too few rows to tell
    assert fastest_lanes(model, 40, train, lambda: now[0]) == 8 and calls == [1, 1, 8, 8, 32, 32]
    assert fastest_lanes(model, 40, train, lambda: now[0]) == 8 and len(calls) == 6


def test_a_number_that_does_not_fit_into_memory_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "_chosen", {})
    calls: list[int] = []

    def failing(limit: int, message: str) -> Callable[[int], None]:
        def train(lanes: int) -> None:
            calls.append(lanes)
            if lanes >= limit:
                raise JaxRuntimeError(message)

        return train

    full = failing(32, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 GiB")
    assert fastest_lanes(mclr(DATA), 128, full, iter([0, 2, 2, 3]).__next__) == 8 and calls == [
        1,
        1,
        8,
        8,
        32,
    ]
    for limit, message in (
        (32, "INTERNAL: a fault"),
        (1, "RESOURCE_EXHAUSTED: not even one client fits"),
    ):
        monkeypatch.setattr(devices, "_chosen", {})
        with pytest.raises(JaxRuntimeError, match=message):
            fastest_lanes(mclr(DATA), 128, failing(limit, message))


def test_a_trainer_without_a_number_measures_on_its_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "_chosen", {})
    monkeypatch.setattr(devices, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(devices, "CANDIDATES", (1, 4))
    expected = trained(world())
    free = JaxTrainer(
        data=DATA, model=MODEL, devices=local_devices(1), lanes=None, ids=np.arange(DATA.clients)
    )
    steps = np.full(len(EVERYONE), WORK.epochs)
    measured = free.train(
        TrainCall(
            models=START,
            clients=EVERYONE,
            model_index=WHICH,
            work=WORK,
            num_steps=steps,
            stream=STREAM,
        )
    )
    np.testing.assert_allclose(measured.update, expected.update, rtol=1e-4, atol=3e-6)
    assert devices._chosen[MODEL] in (1, 4)
