"""Training that also brings the full gradient at its start: against NumPy by hand, ``gradients``,
and itself without.

Run by itself with several host devices, this file prints digests of the results, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from fedkin.aggregation import mean_by_model
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.models import mclr, mlp
from fedkin.models.model import Model
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.trainer import JaxTrainer
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.train import TrainingReply, train
from tests.simulation import numpy_reference, training_digests
from tests.simulation.small_federation import EVERYONE, federation, models, samples

ROOT = Path(__file__).resolve().parents[2]
DATA = federation()
STREAM = Stream(3, 2, "run").child("train")
WHICH = np.array([0, 1, 1, 0, 1, 0, 1])
SGD = LocalTraining(epochs=2, batch_size=10, lr=0.1)
WORK = {
    "one epoch": replace(SGD, epochs=1),
    "two epochs": SGD,
    "larger than every client": replace(SGD, batch_size=200),
    "one sample at a time": replace(SGD, batch_size=1, epochs=1),
    "one step": replace(SGD, steps=1),
    "steps": replace(SGD, steps=9),
    "proximal momentum": replace(SGD, mu=0.5, momentum=0.5),
    "adam": replace(SGD, optimizer="adam", lr=0.01),
    "different epochs": replace(SGD, epochs=np.array([1, 2, 3, 1, 2, 3, 1])),
}
NETWORKS = {
    "mclr": ((6, 3), lambda l2: mclr(DATA, l2)),
    "mlp": ((6, 64, 3), lambda l2: mlp(DATA, 64, l2)),
}
each_work = pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())


def world(model: Model | None = None, **options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, model or mclr(DATA), SGD, **options)


def trained(w: SimulatedWorld, gradient: bool = True, **options: Any) -> TrainingReply:
    return train(w, models(w.model), EVERYONE, WHICH, gradient=gradient, stream=STREAM, **options)


def gradient_of(reply: TrainingReply) -> np.ndarray:
    assert reply.gradient is not None
    return reply.gradient


def by_hand(name: str, l2: float) -> np.ndarray:
    """Full gradients from NumPy, at the model that each client was given."""
    widths, make = NETWORKS[name]
    start = models(make(l2))
    pairs = zip(EVERYONE.tolist(), WHICH, strict=True)
    return np.stack(
        [
            numpy_reference.loss_and_gradient(start[k], widths, *samples(DATA, c), l2)[1]
            for c, k in pairs
        ]
    )


def assert_equals_hand(name: str, work: LocalTraining, l2: float = 0.0) -> None:
    w = world(NETWORKS[name][1](l2))
    found = gradient_of(trained(w, work=work))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand(name, l2), rtol=1e-4, atol=2e-6)
    asked = w.run(Gradients(models(w.model), WHICH), EVERYONE).gradients
    np.testing.assert_allclose(found, asked, rtol=1e-4, atol=2e-6)


@each_work
def test_gradients_of_logistic_regression(work: LocalTraining) -> None:
    assert_equals_hand("mclr", work)


@pytest.mark.parametrize("work", ["two epochs", "steps"])
def test_gradients_of_a_hidden_layer(work: str) -> None:
    assert_equals_hand("mlp", WORK[work])


@pytest.mark.parametrize("work", ["two epochs", "steps"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_penalty_is_in_the_gradient_once(name: str, work: str) -> None:
    """With l2 as large as this, leaving it out, or adding it for every batch,
    would show at once."""
    assert_equals_hand(name, WORK[work], l2=0.05)


def same_but_gradient(one: TrainingReply, other: TrainingReply) -> None:
    for field in fields(one):
        if field.name != "gradient":
            np.testing.assert_array_equal(
                getattr(one, field.name), getattr(other, field.name), err_msg=field.name
            )


@each_work
def test_asking_changes_nothing_else(work: LocalTraining) -> None:
    plain = trained(world(), gradient=False, work=work)
    assert plain.gradient is None
    same_but_gradient(plain, trained(world(), work=work))


def test_asking_changes_no_random_number() -> None:
    """The network drops out units while it trains, and none where its full gradient is taken."""
    plain, asked = (
        SimulatedWorld(training_digests.DATA, training_digests.MODEL, training_digests.WORK)
        for _ in range(2)
    )
    found = trained(asked)
    same_but_gradient(trained(plain, gradient=False), found)
    expected = plain.run(Gradients(models(training_digests.MODEL), WHICH), EVERYONE).gradients
    np.testing.assert_allclose(gradient_of(found), expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("work", [SGD, WORK["steps"]], ids=["epochs", "steps"])
def test_where_means_are_asked_for_gradients_are_single(work: LocalTraining) -> None:
    rows = trained(world(), work=work)
    found = trained(world(), work=work, reduce=True)
    update, weight = mean_by_model(rows.update, rows.examples, rows.model_index, 2)
    np.testing.assert_array_equal(found.update, update)
    np.testing.assert_array_equal(found.weight, weight)
    np.testing.assert_array_equal(found.gradient, rows.gradient)


def test_a_client_that_chooses_its_model_takes_its_gradient_there() -> None:
    w = world()
    start = models(w.model)
    found = train(w, start, EVERYONE, gradient=True, stream=STREAM)
    assert len(set(found.model_index)) == 2
    expected = w.run(Gradients(start, found.model_index), EVERYONE).gradients
    np.testing.assert_allclose(gradient_of(found), expected, rtol=1e-4, atol=2e-6)


def test_no_client_at_all() -> None:
    no_clients = np.zeros(0, np.int64)
    found = train(world(), models(mclr(DATA)), no_clients, no_clients, gradient=True, stream=STREAM)
    assert gradient_of(found).shape == (0, 6 * 3 + 3)


# --- missing replies


@pytest.mark.parametrize("work", [replace(SGD, epochs=4), WORK["steps"]], ids=["epochs", "steps"])
def test_stragglers_send_the_whole_gradient(work: LocalTraining) -> None:
    """The gradient comes first. Stragglers run out of time in the training."""
    work = replace(work, partial=True)
    slow = trained(world(population=Population(stragglers=1.0)), work=work)
    whole = trained(world(), work=work)
    assert slow.arrived.all() and (slow.update != whole.update).any(axis=1).any()
    np.testing.assert_allclose(gradient_of(slow), by_hand("mclr", 0.0), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    "population", [Population(dropout=0.5), Population(stragglers=0.5)], ids=["drop", "straggle"]
)
def test_a_client_that_sends_nothing_has_no_gradient(population: Population) -> None:
    w = world(population=population)
    whole = trained(world())
    found = trained(w)
    there = found.arrived
    assert 0 < there.sum() < len(EVERYONE)
    np.testing.assert_array_equal(
        found.arrived, trained(world(population=population), gradient=False).arrived
    )
    np.testing.assert_array_equal(gradient_of(found)[there], gradient_of(whole)[there])
    assert not gradient_of(found)[~there].any()
    each = 4 * w.spec.parameters
    assert w.ledger.total() == (len(EVERYONE) * each, 2 * there.sum() * each)


def test_bytes_up_are_doubled_and_none_are_added_down() -> None:
    found = {}
    for gradient in (False, True):
        for work in (SGD, WORK["steps"]):
            w = world()
            trained(w, gradient, work=work)
            found[gradient, work.steps] = (w.ledger.down, w.ledger.up)
    each = len(EVERYONE) * 4 * (6 * 3 + 3)
    for steps in (None, 9):
        assert found[False, steps] == ({"train": each}, {"train": each})
        assert found[True, steps] == ({"train": each}, {"train": 2 * each})


@pytest.mark.parametrize("reduce", [False, True])
def test_a_nonfinite_gradient_excludes_its_client(
    monkeypatch: pytest.MonkeyPatch, reduce: bool
) -> None:
    """Update and gradient are one message."""
    train = JaxTrainer.train
    whole = trained(world())

    def damaged(self: JaxTrainer, call: TrainCall) -> Any:
        updates = train(self, call)
        bad = np.where(call.clients == 4, np.nan, 0).astype(np.float32)
        return updates._replace(gradient=updates.gradient + bad[:, None])

    monkeypatch.setattr(JaxTrainer, "train", damaged)
    w = world()
    found = trained(w, reduce=reduce)
    np.testing.assert_array_equal(np.flatnonzero(found.nonfinite), [4])
    np.testing.assert_array_equal(np.flatnonzero(~found.arrived), [4])
    others = np.delete(EVERYONE, 4)
    np.testing.assert_array_equal(gradient_of(found)[others], gradient_of(whole)[others])
    assert not gradient_of(found)[4].any() and found.loss[4] == found.first_loss[4] == 0
    if reduce:
        expected, weight = mean_by_model(
            whole.update[others], whole.examples[others], WHICH[others], 2
        )
        np.testing.assert_array_equal(found.update, expected)
        np.testing.assert_array_equal(found.weight, weight)
    else:
        np.testing.assert_array_equal(found.update[others], whole.update[others])
        assert not found.update[4].any()
    assert w.ledger.total()[1] == 2 * 7 * 4 * w.spec.parameters, "its update was sent and counts"


def test_divergence_is_excluded_with_its_gradient() -> None:
    """Clients of one batch survive a step of this size, all others leave float32."""
    found = trained(world(), work=replace(SGD, lr=1e38))
    whole = trained(world())
    assert 0 < found.nonfinite.sum() < len(EVERYONE)
    np.testing.assert_array_equal(
        gradient_of(found)[found.arrived], gradient_of(whole)[found.arrived]
    )
    assert not gradient_of(found)[found.nonfinite].any()


# --- however the work is arranged


@pytest.mark.parametrize("rows", [[6, 5, 4, 3, 2, 1, 0], [3, 0, 6], [5]])
@pytest.mark.parametrize("work", [SGD, WORK["steps"]], ids=["epochs", "steps"])
def test_order_and_company(rows: list[int], work: LocalTraining) -> None:
    whole = gradient_of(trained(world(), work=work))
    rows_ = np.array(rows)
    start = models(mclr(DATA))
    found = train(
        world(), start, EVERYONE[rows_], WHICH[rows_], work=work, gradient=True, stream=STREAM
    )
    np.testing.assert_array_equal(gradient_of(found), whole[rows_])


def test_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(world())
    monkeypatch.setattr("fedkin.core.client.CHUNK_BYTES", 1000)
    parts = trained(world())
    same_but_gradient(whole, parts)
    np.testing.assert_array_equal(parts.gradient, whole.gradient)


def test_several_clients_at_a_time() -> None:
    for work in (SGD, WORK["steps"]):
        whole = trained(world(), work=work)
        lanes = trained(world(clients_per_batch=4), work=work)
        np.testing.assert_allclose(gradient_of(lanes), gradient_of(whole), rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose(lanes.update, whole.update, rtol=1e-4, atol=3e-6)


def found_on(devices: int) -> list[str]:
    """Digests of the gradients and the updates, by epochs and by steps, and of the label errors, on
    this many devices."""
    w = SimulatedWorld(training_digests.DATA, training_digests.MODEL, devices=devices)
    found = [
        hashlib.sha256(
            w.run(LabelErrors(models(training_digests.MODEL)), EVERYONE).error.tobytes()
        ).hexdigest()
    ]
    for work in (training_digests.WORK, replace(training_digests.WORK, steps=9)):
        reply = trained(
            SimulatedWorld(training_digests.DATA, training_digests.MODEL, work, devices=devices)
        )
        found += [
            hashlib.sha256(part.tobytes()).hexdigest()
            for part in (gradient_of(reply), reply.update)
        ]
    return found


def test_number_of_devices() -> None:
    """One, two and three host devices, and this process with its one."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=3"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.simulation.test_full_gradients"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two, three = json.loads(done.stdout)
    assert one == two == three and len(set(one)) == 5
    if jax.default_backend() == "cpu":
        assert one == found_on(1)


if __name__ == "__main__":
    json.dump([found_on(devices) for devices in range(1, len(jax.devices()) + 1)], sys.stdout)
