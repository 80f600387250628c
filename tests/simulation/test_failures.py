"""Clients that diverge, drop out, straggle, or have not arrived yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.models import mlp
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import TrainingReply, train
from tests.simulation.small_federation import SIZES, federation, models

DATA = federation(sizes=(12, 5, 30) * 10)
MODEL = mlp(DATA, hidden=64)
START = models(MODEL, 2)
EVERYONE = np.arange(30)
WHICH = EVERYONE % 2
WORK = LocalTraining(epochs=1, batch_size=10, lr=0.05)
BYTES = 4 * MODEL.spec.parameters


def world(population: Population | None = None, data: FederatedData = DATA) -> SimulatedWorld:
    return SimulatedWorld(data, MODEL, WORK, population=population)


def trained(w: SimulatedWorld, round: int = 3, **options: Any) -> TrainingReply:
    return train(w, START, EVERYONE, WHICH, stream=Stream(7, round, "run/train"), **options)


def assert_zero_where_absent(reply: TrainingReply, absent: np.ndarray) -> None:
    assert (
        not reply.update[absent].any()
        and not reply.loss[absent].any()
        and not reply.first_loss[absent].any()
    )
    assert not reply.arrived[absent].any()


def test_divergence_is_set_aside() -> None:
    w = world()
    got = trained(w, work=replace(WORK, lr=1e30, epochs=3))
    assert got.nonfinite.all()
    assert_zero_where_absent(got, EVERYONE)
    # The invalid updates were sent and count.
    assert w.ledger.total() == (30 * BYTES, 30 * BYTES)


def poisoned() -> FederatedData:
    """Client 5 alone has features whose products leave float32 after its first step."""
    x = DATA.x.copy()
    x[DATA.train[5]] = 3e38
    return replace(DATA, x=x)


def test_one_divergent_client_leaves_the_others_alone() -> None:
    clean = trained(world())
    got = trained(world(data=poisoned()))
    np.testing.assert_array_equal(np.flatnonzero(got.nonfinite), [5])
    assert_zero_where_absent(got, np.array([5]))
    np.testing.assert_array_equal(
        np.delete(got.update, 5, axis=0), np.delete(clean.update, 5, axis=0)
    )
    np.testing.assert_array_equal(got.examples, np.where(EVERYONE == 5, 0, clean.examples))


def test_a_divergent_client_has_no_weight_in_the_mean() -> None:
    without = np.delete(EVERYONE, 5)
    stream = Stream(7, 3, "run/train")
    expected = train(world(), START, without, WHICH[without], reduce=True, stream=stream)
    got = trained(world(data=poisoned()), reduce=True)
    np.testing.assert_array_equal(got.weight, expected.weight)
    np.testing.assert_array_equal(got.update, expected.update)


def test_no_client_drops_out() -> None:
    got = trained(world(Population(dropout=0.0)))
    assert got.arrived.all()
    np.testing.assert_array_equal(got.update, trained(world()).update)


@pytest.mark.parametrize("population", [Population(dropout=1.0), Population(stragglers=1.0)])
def test_no_client_replies(population: Population) -> None:
    w = world(population)
    got = trained(w)
    assert_zero_where_absent(got, EVERYONE)
    assert not got.nonfinite.any()
    assert w.ledger.total() == (30 * BYTES, 0)
    reduced = trained(w, reduce=True)
    np.testing.assert_array_equal(reduced.update, np.zeros_like(START))
    np.testing.assert_array_equal(reduced.weight, [0, 0])


def test_half_drop_out() -> None:
    w = world(Population(dropout=0.5))
    whole = trained(world())
    got = trained(w)
    there = got.arrived
    assert 0 < there.sum() < 30
    np.testing.assert_array_equal(got.update[there], whole.update[there])
    assert_zero_where_absent(got, ~there)
    np.testing.assert_array_equal(got.examples, np.where(there, whole.examples, 0))
    assert w.ledger.total() == (30 * BYTES, there.sum() * BYTES)


def test_dropout_depends_on_client_and_round_only() -> None:
    population = Population(dropout=0.5)
    usual = trained(world(population)).arrived
    # Other operations first, another purpose, another order, other clients in the call.
    w = world(population)
    w.run(Losses(START), EVERYONE)
    w.run(Gradients(START, WHICH), EVERYONE)
    np.testing.assert_array_equal(
        w.run(Gradients(START, WHICH), EVERYONE).gradients.any(axis=1), True
    )
    order = np.roll(EVERYONE[::-1], 7)[:19]
    got = train(w, START, order, WHICH[order], stream=Stream(7, 3, "run/cold start"))
    np.testing.assert_array_equal(got.arrived, usual[order])
    np.testing.assert_array_equal(trained(w).arrived, usual)
    assert (trained(w, round=4).arrived != usual).any()
    other_seed = train(w, START, EVERYONE, WHICH, stream=Stream(8, 3, "run/train"))
    assert (other_seed.arrived != usual).any()


def test_a_client_that_drops_out_of_a_round_sends_no_losses_in_it() -> None:
    w = world(Population(dropout=0.5))
    whole = world().run(Losses(START), EVERYONE).losses
    for round in (3, 4):
        w.begin(Stream(7, round, "scenario"))
        silent = ~trained(w, round).arrived
        assert 0 < silent.sum() < 30
        losses = w.run(Losses(START), EVERYONE[::-1]).losses[::-1]
        np.testing.assert_array_equal(np.isnan(losses), np.repeat(silent[:, None], 2, axis=1))
        np.testing.assert_allclose(losses[~silent], whole[~silent], rtol=1e-6)


def test_stragglers_tell_their_losses() -> None:
    w = world(Population(stragglers=1.0))
    w.begin(Stream(7, 3, "scenario"))
    assert np.isfinite(w.run(Losses(START), EVERYONE).losses).all()


def test_stragglers_are_lost_where_nothing_partial_is_sent() -> None:
    whole = trained(world())
    got = trained(world(Population(stragglers=0.5)))
    assert 0 < got.arrived.sum() < 30
    np.testing.assert_array_equal(got.update[got.arrived], whole.update[got.arrived])
    assert_zero_where_absent(got, ~got.arrived)


def test_stragglers_send_completed_steps() -> None:
    """A straggler manages 1, 2 or 3 of E = 4 epochs: its update is bit for bit the one of so many
    epochs."""
    work = replace(WORK, epochs=4, partial=True)
    by_epochs = np.stack(
        [trained(world(), work=replace(work, epochs=e)).update for e in (1, 2, 3, 4)]
    )
    all_slow = trained(world(Population(stragglers=1.0)), work=work)
    assert all_slow.arrived.all()
    same = (by_epochs == all_slow.update).all(axis=2)  # [epochs, client]
    np.testing.assert_array_equal(same.sum(axis=0), 1)
    np.testing.assert_array_equal(same.any(axis=1), [True, True, True, False])
    some_slow = trained(world(Population(stragglers=0.5)), work=work)
    managed_all = (some_slow.update == by_epochs[3]).all(axis=1)
    lost = ~trained(world(Population(stragglers=0.5)), work=replace(work, partial=False)).arrived
    np.testing.assert_array_equal(managed_all, ~lost)


def test_a_straggler_of_one_epoch_still_does_it() -> None:
    got = trained(world(Population(stragglers=1.0)), work=replace(WORK, partial=True))
    np.testing.assert_array_equal(got.update, trained(world()).update)


def test_arrivals() -> None:
    w = SimulatedWorld(federation(), MODEL, WORK, population=Population(arrivals={3: 4, 6: 1}))
    assert w.total_clients == len(SIZES)
    for round, present in {0: 2, 2: 2, 3: 6, 5: 6, 6: 7, 100: 7}.items():
        np.testing.assert_array_equal(w.clients(round), np.arange(present))


def test_stragglers_manage_fewer_steps_too() -> None:
    """A straggler manages one of two steps, and sends the update of that one."""
    slow = trained(world(Population(stragglers=1.0)), work=replace(WORK, steps=2, partial=True))
    one = trained(world(), work=replace(WORK, steps=1))
    two = trained(world(), work=replace(WORK, steps=2))
    # Both of their batches come from one permutation.
    large = np.flatnonzero(DATA.train.sizes[EVERYONE] >= 20)
    np.testing.assert_allclose(slow.update[large], one.update[large], atol=1e-7)
    assert (slow.update != two.update).any(axis=1).all()
