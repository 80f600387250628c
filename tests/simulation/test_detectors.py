"""Detectors of one class among all, trained together and scored together, against NumPy and against
one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from fedkin.aggregation import mean_by_model
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models.model import Model
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import TrainingReply, train
from tests.simulation import numpy_detectors
from tests.simulation.numpy_detectors import linear, small, widths
from tests.simulation.small_federation import federation, models, samples

DATA = federation(test_sizes=(3, 0, 1, 20, 0, 5, 40))
STREAM = Stream(3, 2, "run").child("train")
WORK = LocalTraining(epochs=2, batch_size=10, lr=0.1)
# client 6 has three detectors, 3 has two, one of them twice, the others have one: no order, no
# equal numbers
CLIENTS = np.array([6, 3, 0, 6, 5, 3, 1, 6, 2, 3, 4])
WHICH = np.array([2, 0, 1, 0, 2, 1, 1, 1, 0, 0, 2])
POSITIVE = np.array([1, 0, 2, 0, 1, 2, 0, 2, 1, 1, 0])
ROWS = np.arange(len(CLIENTS))
BYTES = 4 * (6 + 1)


def world(model: Model | None = None, **options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, model or linear(), WORK, **options)


def trained(
    w: SimulatedWorld, rows: np.ndarray = ROWS, work: LocalTraining = WORK, **options: Any
) -> TrainingReply:
    options = {"stream": STREAM, "work": replace(work, positive=POSITIVE[rows]), **options}
    return train(w, models(w.model, 3), CLIENTS[rows], WHICH[rows], **options)


# --- training, by hand


@pytest.mark.parametrize("model", [linear(), small()], ids=["linear", "hidden layer"])
@pytest.mark.parametrize(
    "work",
    [
        LocalTraining(epochs=1, batch_size=200, lr=0.5),
        LocalTraining(epochs=3, batch_size=200, lr=0.1, momentum=0.5, mu=0.3),
        LocalTraining(epochs=3, batch_size=200, lr=0.01, optimizer="adam"),
    ],
    ids=["one step", "proximal momentum", "adam"],
)
def test_it_learns_to_tell_its_class_from_all_others(model: Model, work: LocalTraining) -> None:
    got = trained(world(model), work=work)
    for row, (client, model_index, positive) in enumerate(
        zip(CLIENTS.tolist(), WHICH, POSITIVE, strict=True)
    ):
        x, y = samples(DATA, client)
        expected = numpy_detectors.trained(
            start=models(model, 3)[model_index],
            widths=widths(model),
            x=x,
            found=y == positive,
            work=work,
        )
        np.testing.assert_allclose(got.update[row], expected[0], rtol=2e-4, atol=2e-6)
        np.testing.assert_allclose((got.loss[row], got.first_loss[row]), expected[1:], rtol=1e-5)
        assert got.examples[row] == len(y)


def test_one_gradient_step_written_out() -> None:
    """update = -lr mean((sigma(w x + b) - [y = positive]) (x, 1))."""
    got = trained(world(), work=LocalTraining(epochs=1, batch_size=200, lr=0.5))
    x, y = samples(DATA, 6)
    start = models(linear(), 3)[2].astype(np.float64)
    error = 1 / (1 + np.exp(-(x @ start[:6] + start[6]))) - (y == 1)
    np.testing.assert_allclose(
        got.update[0, :6], -0.5 * np.mean(error[:, None] * x, axis=0), rtol=1e-4, atol=1e-7
    )
    np.testing.assert_allclose(got.update[0, 6], -0.5 * np.mean(error), rtol=1e-4)


# --- together as alone


def assert_close(one: TrainingReply, other: TrainingReply, rows: Any = slice(None)) -> None:
    for part in ("update", "loss", "first_loss"):
        np.testing.assert_allclose(
            getattr(one, part)[rows], getattr(other, part), rtol=1e-5, atol=1e-6, err_msg=part
        )
    for part in ("model_index", "examples", "arrived", "nonfinite"):
        np.testing.assert_array_equal(getattr(one, part)[rows], getattr(other, part), err_msg=part)


@pytest.mark.parametrize(
    ("model", "work"),
    [(linear(), WORK), (small(), replace(WORK, steps=7, mu=0.5))],
    ids=["linear, epochs", "hidden layer, steps"],
)
def test_detectors_trained_together_equal_each_trained_alone(
    model: Model, work: LocalTraining
) -> None:
    together = trained(world(model), work=work)
    # The first of a client, the second, ..
    turn = np.array([np.sum(CLIENTS[:row] == CLIENTS[row]) for row in ROWS])
    for nth in range(3):
        rows = np.flatnonzero(turn == nth)
        assert_close(together, trained(world(model), rows, work=work), rows)


@pytest.mark.parametrize(
    "order", [ROWS[::-1], np.roll(ROWS, 4), np.array([7, 0, 3, 4])], ids=["back", "rolled", "few"]
)
def test_the_order_of_rows_does_not_matter(order: np.ndarray) -> None:
    assert_close(trained(world()), trained(world(), order), order)


def test_detectors_of_one_client_see_the_same_batches() -> None:
    """Two that start alike and look for the same class end alike, at the end of the same row of
    losses."""
    w = world()
    alike = replace(WORK, positive=np.array([1, 1, 2]))
    clients = np.full(3, 6)
    model_index = np.array([2, 2, 2])
    got = train(w, models(linear(), 3), clients, model_index, work=alike, stream=STREAM)
    np.testing.assert_array_equal(got.update[0], got.update[1])
    assert (got.update[2] != got.update[0]).any()


def test_batches_are_those_of_any_other_model_of_the_stream() -> None:
    """Another round draws others."""
    assert (trained(world()).update != trained(world(), stream=STREAM.at(3)).update)[
        DATA.train.sizes[CLIENTS] > 10
    ].any()


@pytest.mark.skipif(
    len(jax.devices()) < 2, reason="this process has one device, and this needs two"
)
def test_one_device_and_two() -> None:
    one, two = (trained(world(devices=devices)) for devices in (1, 2))
    for part in ("update", "loss", "first_loss"):
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))


def test_several_clients_at_a_time() -> None:
    assert_close(trained(world(clients_per_batch=3)), trained(world(clients_per_batch=1)))


def test_chunks_keep_the_detectors_of_a_client_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(world())
    monkeypatch.setattr("fedkin.core.client.CHUNK_BYTES", 1000)
    np.testing.assert_array_equal(trained(world()).update, whole.update)


def test_means_by_detector() -> None:
    rows = trained(world())
    found = trained(world(), reduce=True)
    update, weight = mean_by_model(rows.update, rows.examples, rows.model_index, 3)
    np.testing.assert_allclose(found.update, update, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(found.weight, weight)


def test_no_row_at_all() -> None:
    nothing = ROWS[:0]
    assert trained(world(), nothing).update.shape == (0, 7)
    assert not trained(world(), nothing, reduce=True).update.any()


# --- missing replies


@pytest.mark.parametrize(
    "population", [Population(dropout=0.5), Population(stragglers=0.5)], ids=["drop", "straggle"]
)
def test_a_client_answers_with_all_its_detectors_or_with_none(population: Population) -> None:
    w = world(population=population)
    whole = trained(world())
    got = trained(w)
    assert 0 < got.arrived.sum() < len(ROWS)
    for client in CLIENTS:
        assert len(set(got.arrived[client == CLIENTS])) == 1
    np.testing.assert_allclose(
        got.update[got.arrived], whole.update[got.arrived], rtol=1e-5, atol=1e-6
    )
    assert not got.update[~got.arrived].any()
    sent_once = len(set(zip(CLIENTS.tolist(), WHICH.tolist(), strict=True)))
    assert w.ledger.total() == (sent_once * BYTES, got.arrived.sum() * BYTES)


def test_stragglers_send_different_numbers_of_steps() -> None:
    """Each manages one, two or three of four epochs. Its update equals training for so many."""
    work = replace(WORK, epochs=4, partial=True)
    by_epochs = np.stack([trained(world(), work=replace(work, epochs=e)).update for e in (1, 2, 3)])
    slow = trained(world(population=Population(stragglers=1.0)), work=work)
    same = np.abs(by_epochs - slow.update).max(axis=2) < 1e-6  # [epochs, row]
    np.testing.assert_array_equal(same.sum(axis=0), 1)
    completed = same.argmax(axis=0)
    assert len(set(completed)) > 1
    for client in CLIENTS:
        assert len(set(completed[client == CLIENTS])) == 1


def test_a_detector_that_diverges_leaves_the_others_of_its_client_alone() -> None:
    start = models(linear(), 3)
    start[2] = np.nan
    work = replace(WORK, positive=POSITIVE)
    got = train(world(), start, CLIENTS, WHICH, work=work, stream=STREAM)
    whole = trained(world())
    np.testing.assert_array_equal(got.nonfinite, WHICH == 2)
    np.testing.assert_array_equal(got.arrived, WHICH != 2)
    np.testing.assert_allclose(
        got.update[WHICH != 2], whole.update[WHICH != 2], rtol=1e-5, atol=1e-6
    )
    assert not got.update[WHICH == 2].any()
