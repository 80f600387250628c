"""Requests between clients: which are answered, and the bytes counted."""

from __future__ import annotations

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.losses import Losses
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.train import train
from tests.simulation.small_federation import federation, models

DATA = federation((6,) * 40)
ASKERS = np.arange(40)
ASKED = (np.arange(40) + 1) % 40
BYTES = 4 * mclr(DATA).spec.parameters


def world(**population: object) -> SimulatedWorld:
    made = SimulatedWorld(
        DATA,
        mclr(DATA),
        LocalTraining(),
        population=Population(**population),  # type: ignore[arg-type]
    )
    made.begin(Stream(0, 3, "scenario"))
    return made


def test_all_clients_reply_and_each_reply_is_counted_down_and_up() -> None:
    w = world()
    assert w.run(Ask(2), ASKED).arrived.all()
    assert w.ledger.total() == (40 * 2 * BYTES, 40 * 2 * BYTES) and list(w.ledger.down) == ["ask"]


def test_one_that_has_left_or_not_come_does_not_answer() -> None:
    w = world(arrivals={4: 5}, departures={2: 3})  # it is round 3
    np.testing.assert_array_equal(w.run(Ask(1), ASKED).arrived, (ASKED >= 3) & (ASKED < 35))
    assert w.ledger.total() == (32 * BYTES, 32 * BYTES)


def test_a_client_that_drops_out_neither_replies_nor_trains() -> None:
    w = world(dropout=0.4)
    came = w.run(Ask(1), ASKED).arrived
    stream = Stream(0, 3, "method")
    trained = train(w, models(w.model, 1), ASKED, np.zeros(40, np.int64), stream=stream).arrived
    assert 5 < came.sum() < 35
    np.testing.assert_array_equal(came, trained)


def test_the_mute_are_the_same_in_every_round() -> None:
    w = world(mute=0.3)
    first = w.run(Ask(1), ASKED).arrived
    w.begin(Stream(0, 9, "scenario"))
    np.testing.assert_array_equal(w.run(Ask(1), ASKED).arrived, first)
    assert 3 < (~first).sum() < 25


def test_the_mute_train_for_themselves_and_send_nothing() -> None:
    w = world(mute=0.3)
    model_index = np.zeros(40, np.int64)
    came = w.run(Ask(1), ASKED).arrived
    start = models(w.model, 1)
    stream = Stream(0, 3, "method")
    np.testing.assert_array_equal(train(w, start, ASKED, model_index, stream=stream).arrived, came)
    np.testing.assert_array_equal(np.isnan(w.run(Losses(start), ASKED).losses[:, 0]), ~came)
    before = w.ledger.total()
    assert train(w, start, ASKED, model_index, local=True, stream=stream).arrived.all()
    assert w.ledger.total() == before


def test_local_work_does_not_travel() -> None:
    w = world()
    evaluate(w, models(w.model, 1), ASKED, np.zeros(40, np.int64), split="train", local=True)
    assert w.ledger.total() == (0, 0) and not w.ledger.down
    evaluate(w, models(w.model, 1), ASKED, np.zeros(40, np.int64))
    assert w.ledger.total()[0] > 0
