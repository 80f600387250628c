"""The same seed gives the same bits, whatever the devices, chunks and order of clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from fedkin.aggregation import mean_by_model
from fedkin.core.errors import ConfigError
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax import local_training
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import TrainingReply, train
from tests.simulation.small_federation import EVERYONE, models
from tests.simulation.training_digests import DATA, MODEL, STREAM, WHICH, WORK, digests, trained

ROOT = Path(__file__).resolve().parents[2]


START = models(MODEL)


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, MODEL, WORK, **options)


def assert_same_rows(one: TrainingReply, other: TrainingReply, rows: Any = slice(None)) -> None:
    """Row i of ``other`` is row ``rows[i]`` of ``one``, bit for bit."""
    for part in ("update", "model_index", "examples", "loss", "first_loss", "arrived", "nonfinite"):
        np.testing.assert_array_equal(getattr(one, part)[rows], getattr(other, part), err_msg=part)


def test_one_seed_one_result() -> None:
    assert_same_rows(trained(world()), trained(world()))


def test_another_round_another_result() -> None:
    one = trained(world())
    other = train(world(), START, EVERYONE, WHICH, stream=STREAM.at(2))
    several_batches = DATA.train.sizes > WORK.batch_size
    assert (one.update != other.update).any(axis=1)[several_batches].all()


def test_models_that_no_row_trains_change_nothing() -> None:
    """Those of the rows go to the device where there are many more: peers have one each."""
    one = trained(world())
    many = np.tile(np.full_like(START[:1], np.nan), (100, 1))
    many[90 : 90 + len(START)] = START[::-1]
    other = train(world(), many, EVERYONE, 89 + len(START) - WHICH, stream=STREAM)
    np.testing.assert_array_equal(one.update, other.update)
    np.testing.assert_array_equal(one.loss, other.loss)


def test_number_of_devices() -> None:
    """One, two and three host devices, and this process with its one."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=3"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.simulation.training_digests"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 3
    assert found[1] == found[0] and found[2] == found[0]
    assert found[0][0] != found[0][1]
    if jax.default_backend() == "cpu":
        assert found[0] == digests(1)


def test_convolutions_while_all_devices_are_at_work() -> None:
    """With as many threads as devices, 12 of 40 steps are wrong on each (jaxlib 0.10.2)."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "NPROC": "1"}
    command = [sys.executable, "-m", "tests.simulation.padded_convolutions"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 0]


def test_more_devices_than_there_are() -> None:
    for devices in (0, 1000):
        with pytest.raises(ConfigError, match="devices"):
            world(devices=devices)


@pytest.mark.parametrize("order", [[6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 2, 5, 1, 4]])
def test_order_of_clients(order: list[int]) -> None:
    whole = trained(world())
    order_ = np.array(order)
    assert_same_rows(
        whole, train(world(), START, EVERYONE[order_], WHICH[order_], stream=STREAM), order_
    )


def test_order_of_clients_in_a_mean() -> None:
    order = np.array([3, 0, 6, 2, 5, 1, 4])
    whole = trained(world(), reduce=True)
    other = train(world(), START, EVERYONE[order], WHICH[order], reduce=True, stream=STREAM)
    np.testing.assert_array_equal(other.update, whole.update)
    np.testing.assert_array_equal(other.weight, whole.weight)


def test_order_of_clients_in_a_mean_of_opposite_giants() -> None:
    """1e17 + 1 - 1e17 is 0 even in float64, 1e17 - 1e17 + 1 is not: clients are summed in a fixed
    order."""
    x = np.array([[1e17], [1.0], [-1e17], [3.0]], np.float32)
    rows = Ragged.of(list(np.arange(4)[:, None]))
    data = FederatedData(
        name="giants", x=x, y=np.zeros(4, np.int64), classes=2, train=rows, test=rows
    )
    nothing = np.zeros((1, 4), np.float32)
    found = set()
    for order in permutations(range(4)):
        w = SimulatedWorld(data, mclr(data), WORK)
        reply = train(
            w,
            nothing,
            np.array(order),
            np.zeros(4, np.int64),
            reduce=True,
            stream=STREAM,
            work=LocalTraining(),
        )
        assert reply.arrived.all()
        found.add(reply.update.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("rows", [[0], [1, 4, 5]])
def test_company(rows: list[int]) -> None:
    """A client's row is the same whoever else is in the call, also when it is alone."""
    rows_ = np.array(rows)
    got = train(world(), START, EVERYONE[rows_], WHICH[rows_], stream=STREAM)
    assert_same_rows(trained(world()), got, rows_)


def test_a_client_in_several_rows() -> None:
    whole = trained(world())
    clients = np.array([4, 1, 4, 1, 4])
    model_index = np.array([WHICH[4], WHICH[1], 1 - WHICH[4], 1 - WHICH[1], WHICH[4]])
    got = train(world(), START, clients, model_index, stream=STREAM)
    for row in (0, 1, 4):
        np.testing.assert_array_equal(got.update[row], whole.update[clients[row]])
    for one, other in ((0, 2), (1, 3)):
        assert (got.update[one] != got.update[other]).any()


def test_rows_with_different_epochs() -> None:
    """Epochs travel with their row through any order."""
    epochs = np.array([1, 2, 3, 1, 2, 3, 1])
    order = np.array([3, 0, 6, 2, 5, 1, 4])
    whole = train(world(), START, EVERYONE, WHICH, work=replace(WORK, epochs=epochs), stream=STREAM)
    mixed = replace(WORK, epochs=epochs[order])
    assert_same_rows(
        whole,
        train(world(), START, EVERYONE[order], WHICH[order], work=mixed, stream=STREAM),
        order,
    )


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Sets the bytes of one portion; the list that comes back grows by one entry per compiled
    training call."""
    calls: list[int] = []
    train = local_training.train

    def counted(**arguments: Any) -> Any:
        calls.append(1)
        return train(**arguments)

    def of(size: int) -> list[int]:
        monkeypatch.setattr("fedkin.core.client.CHUNK_BYTES", size)
        return calls

    monkeypatch.setattr(local_training, "train", counted)
    return of


@pytest.mark.parametrize("reduce", [False, True])
def test_portions(chunks: Callable[[int], list[int]], reduce: bool) -> None:
    calls = chunks(2**30)
    whole = trained(world(devices=1), reduce)
    assert len(calls) == 1
    chunks(8000)
    parts = trained(world(devices=1), reduce)
    assert len(calls) > 2
    assert_same_rows(whole, parts)
    if reduce:
        np.testing.assert_array_equal(whole.weight, parts.weight)


def test_reduced_reply_is_the_mean_of_the_rows() -> None:
    rows = trained(world())
    reduced = trained(world(), reduce=True)
    update, weight = mean_by_model(rows.update, rows.examples, rows.model_index, 2)
    np.testing.assert_array_equal(reduced.update, update)
    np.testing.assert_array_equal(reduced.weight, weight)
    np.testing.assert_array_equal(weight, [1 * 2 + 7 + 23 + 130, 1 + 10 + 64])
    for name in ("loss", "first_loss"):
        mean, _ = mean_by_model(getattr(rows, name)[:, None], rows.examples, rows.model_index, 2)
        np.testing.assert_allclose(
            getattr(reduced, name), mean[rows.model_index, 0], rtol=1e-6, err_msg=name
        )


def test_several_clients_at_a_time() -> None:
    """Four lanes reorder sums, so this is equality of numbers, not of bits."""
    whole = trained(world())
    lanes = trained(world(clients_per_batch=4))
    np.testing.assert_allclose(lanes.update, whole.update, rtol=1e-4, atol=3e-6)
    np.testing.assert_allclose(lanes.loss, whole.loss, rtol=1e-4)
    np.testing.assert_allclose(lanes.first_loss, whole.first_loss, rtol=1e-4)


@pytest.mark.parametrize("rows", [[6, 5, 4, 3, 2, 1, 0], [0], [2, 5]])
def test_scores_and_gradients_do_not_depend_on_order_or_company(rows: list[int]) -> None:
    w = world()
    rows_ = np.array(rows)
    whole = w.run(Gradients(START, WHICH), EVERYONE).gradients
    np.testing.assert_array_equal(
        w.run(Gradients(START, WHICH[rows_]), EVERYONE[rows_]).gradients, whole[rows_]
    )
    np.testing.assert_array_equal(
        w.run(Losses(START), EVERYONE[rows_]).losses, w.run(Losses(START), EVERYONE).losses[rows_]
    )
    every = evaluate(w, START, EVERYONE, WHICH)
    some = evaluate(w, START, EVERYONE[rows_], WHICH[rows_])
    np.testing.assert_array_equal(some.loss, every.loss[rows_])
    np.testing.assert_array_equal(some.correct, every.correct[rows_])
