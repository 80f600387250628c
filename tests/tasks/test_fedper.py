"""Training of whole models of which the head stays with its client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ModelError, TaskError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.training import LocalTraining
from fedkin.models import mlp
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.fedper import EvaluatePersonal, Personal, body_of, join
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation

STREAM = Stream(3, 1, "train")
HEAD = slice(1, 3)  # neither at the start nor at the end
TARGET = np.array([[2, 10, -4, 0], [0, 20, 6, 4], [8, 30, 0, 8]], np.float32)
START = np.array([0, 2, 2, 0], np.float32)
DATA = federation()
MODEL = mlp(DATA, 8)
WORK = LocalTraining(epochs=2, batch_size=10, lr=0.1)


def fake(lr: float = 0.5, examples: tuple[int, ...] = (10, 30, 60), **options: Any) -> FakeWorld:
    """Three quadratic clients with 10, 30 and 60 samples: an epoch goes half the way to the
    client's target."""
    return FakeWorld(TARGET, np.array(examples), LocalTraining(lr=lr), head=HEAD, **options)


def personal(world: Any, clients: Any, body: Any = (0, 0), stream: Stream = STREAM) -> Reply:
    clients = np.asarray(clients)
    task = Personal(
        models=np.array([body], np.float32),
        work=world.work,
        model_index=np.zeros(len(clients), np.int64),
        start=START,
        head=HEAD,
    )
    return world.run(task, clients, stream)


def heads(world: Any) -> np.ndarray:
    return world.memory()["clients/personal_head"]


def simulated(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, MODEL, WORK, **options)


def trained(
    world: SimulatedWorld, rounds: int = 2, first: int = 1, clients: Any = EVERYONE
) -> list[Reply]:
    """Rounds from one start, two models in turn."""
    start = MODEL.initial(STREAM.words())
    bodies = body_of(np.stack([start, start / 2]), MODEL.spec.head)
    task = Personal(
        models=bodies,
        work=WORK,
        model_index=np.asarray(clients) % 2,
        start=start,
        head=MODEL.spec.head,
    )
    return [world.run(task, np.asarray(clients), STREAM.at(first + r)) for r in range(rounds)]


def scoring(world: SimulatedWorld) -> EvaluatePersonal:
    start = MODEL.initial(STREAM.words())
    return EvaluatePersonal(
        body_of(start[None], MODEL.spec.head), np.zeros(7, np.int64), start, MODEL.spec.head
    )


# --- parts of a model


@pytest.mark.parametrize(
    "head", [slice(0, 2), slice(1, 3), slice(3, 5), slice(0, 5), slice(1, 5, 2), None]
)
def test_bodies_and_heads_make_the_models_they_were(head: slice | None) -> None:
    models = np.arange(15, dtype=np.float32).reshape(3, 5)
    own = models[:, head] if head else models[:, :0]
    np.testing.assert_array_equal(join(body_of(models, head), own, head), models)
    np.testing.assert_array_equal(join(body_of(models[0], head), own[0], head), models[0])


# --- training, by hand


def test_the_body_goes_to_the_mean_and_each_head_to_its_own_target() -> None:
    """From the body (0, 0) to (1, 0) and (0, 2) with weights 10 and 30; heads half the way from (2,
    2)."""
    world = fake()
    reply = personal(world, [0, 1])
    np.testing.assert_allclose(reply.update, [[0.25, 1.5]])
    np.testing.assert_array_equal(heads(world), [[6, -1], [11, 4], [0, 0]])
    np.testing.assert_array_equal(reply.examples, [10, 30])


def test_the_next_round_starts_from_the_own_head() -> None:
    """Client 2 trains for the first time, from the first head; client 1 goes on."""
    world = fake()
    personal(world, [0, 1])
    personal(world, [1, 2], body=(4, 4))
    np.testing.assert_array_equal(heads(world), [[6, -1], [15.5, 5], [16, 1]])


def test_losses_are_those_of_the_whole_model() -> None:
    """Before: half of 2^2 + 8^2 + 6^2 + 0; after one step the distance is half as long."""
    reply = personal(fake(), [0])
    np.testing.assert_allclose([reply.first_loss[0], reply.loss[0]], [52, 13])


def test_several_bodies() -> None:
    """Each client trains the body of its index; one without clients has no update."""
    world = fake()
    task = Personal(
        models=np.array([[0, 0], [4, 4], [8, 0]], np.float32),
        work=world.work,
        model_index=np.array([0, 2]),
        start=START,
        head=HEAD,
    )
    reply = world.run(task, np.array([0, 1]), STREAM)
    np.testing.assert_array_equal(reply.update, [[1, 0], [0, 0], [-4, 2]])
    np.testing.assert_array_equal(reply.weight, [10, 0, 30])


def test_without_a_head_it_is_training() -> None:
    world = fake()
    task = Personal(
        models=START[None],
        work=world.work,
        model_index=np.zeros(3, np.int64),
        start=START,
        head=None,
    )
    expected = train(
        fake(), START[None], np.arange(3), np.zeros(3, np.int64), reduce=True, stream=STREAM
    )
    np.testing.assert_array_equal(world.run(task, np.arange(3), STREAM).update, expected.update)


# --- traffic


def test_no_head_is_in_a_reply() -> None:
    up = Personal(
        models=START[None], work=WORK, model_index=np.zeros(1, np.int64), start=START, head=HEAD
    ).up
    assert {name: array.axes for name, array in up.arrays.items() if array.axes} == {"update": "b"}
    assert up.arrays["update"].over == "model"  # a mean, and no client's own
    assert personal(fake(), [0, 1, 2]).update.shape == (1, 2)


def test_bytes_are_those_of_bodies() -> None:
    world = fake()
    personal(world, [0, 1])
    world.run(
        EvaluatePersonal(np.zeros((1, 2), np.float32), np.zeros(3, np.int64), START, HEAD),
        np.arange(3),
    )
    assert world.ledger.down == {"personal": 2 * 2 * 4, "evaluate_personal": 3 * 2 * 4}
    assert world.ledger.up == {"personal": 2 * 2 * 4, "evaluate_personal": 0}


# --- clients that fail


@pytest.mark.parametrize("compiled", [True, False])
def test_a_client_whose_training_diverged_keeps_its_head(compiled: bool) -> None:
    world = fake(examples=(1, 1, 1))
    personal(world, [0, 1, 2])
    before = heads(world)
    world.garbage = frozenset({1})
    world._compiled = compiled
    reply = personal(world, [0, 1, 2])
    np.testing.assert_array_equal(reply.nonfinite, [False, True, False])
    np.testing.assert_array_equal((heads(world) != before).any(axis=1), [True, False, True])
    # The mean of half the way to (2, 0) and (8, 8).
    np.testing.assert_allclose(reply.update, [[2.5, 2]])


@pytest.mark.parametrize("compiled", [True, False])
def test_a_loss_that_cannot_be_true_is_divergence_too(compiled: bool) -> None:
    """Finite numbers, and a loss above the server's limit."""
    world = fake(lr=1e17)
    world._compiled = compiled
    reply = personal(world, [0])
    assert reply.nonfinite[0] and "clients/personal_head" not in world.memory()
    assert not reply.update.any()


def test_a_client_that_does_not_reply_keeps_its_head() -> None:
    world = fake(silent=frozenset({0}))
    reply = personal(world, [0, 1])
    np.testing.assert_array_equal(reply.arrived, [False, True])
    np.testing.assert_array_equal(heads(world), [[0, 0], [11, 4], [0, 0]])
    np.testing.assert_allclose(reply.update, [[0, 2]])


def test_dropouts_keep_their_heads_in_a_simulation() -> None:
    world = simulated(population=Population(dropout=0.4))
    first, second = trained(world)
    assert 0 < first.arrived.sum() < 7
    kept = world.memory()["clients/personal_head.kept"].astype(bool)
    np.testing.assert_array_equal(kept, first.arrived | second.arrived)


# --- the same everywhere


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_client_by_client_it_is_the_same(dropout: float) -> None:
    worlds = [
        simulated(compiled=compiled, population=Population(dropout=dropout))
        for compiled in (True, False)
    ]
    first, second = ([*trained(world), world.run(scoring(world), EVERYONE)] for world in worlds)
    for a, b in zip(first, second, strict=True):
        for name, array in a.arrays.items():
            np.testing.assert_allclose(b.arrays[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(heads(worlds[1]), heads(worlds[0]), rtol=1e-5, atol=1e-6)
    assert (
        worlds[0].ledger.down == worlds[1].ledger.down
        and worlds[0].ledger.up == worlds[1].ledger.up
    )


def test_a_client_does_not_depend_on_the_others() -> None:
    """In whatever portion and with whomever it is trained, to the bit."""
    together = simulated()
    apart = simulated()
    trained(together)
    for some in ([0, 2, 4, 6], [5, 3, 1]):
        trained(apart, clients=some)
    assert heads(together).tobytes() == heads(apart).tobytes()


def test_a_run_goes_on_from_the_memory() -> None:
    whole = simulated()
    half = simulated()
    expected = trained(whole, rounds=4)
    trained(half, rounds=2)
    again = simulated()
    again.recall(half.memory())
    got = trained(again, rounds=2, first=3)
    assert [r.update.tobytes() for r in got] == [r.update.tobytes() for r in expected[2:]]
    assert heads(again).tobytes() == heads(whole).tobytes()


# --- evaluation


def test_evaluation_uses_the_joined_models() -> None:
    """Clients that never trained have the head of the initial model."""
    world = simulated()
    start = MODEL.initial(STREAM.words())
    head = MODEL.spec.head
    assert head is not None
    trained(world, clients=[0, 3, 6])
    models = np.tile(start, (7, 1))
    models[[0, 3, 6], head] = heads(world)[[0, 3, 6]]
    for split in ("test", "train"):
        reply = world.run(replace(scoring(world), split=split), EVERYONE)
        scores = evaluate(world, models, EVERYONE, EVERYONE, split=split)
        np.testing.assert_array_equal(
            [reply.sums[:, 0], reply.examples], [scores.sums[:, 0], scores.examples]
        )
        np.testing.assert_allclose(reply.loss, scores.loss, rtol=1e-6)


def test_evaluation_changes_no_head() -> None:
    world = simulated()
    trained(world)
    before = heads(world).copy()
    world.run(scoring(world), EVERYONE)
    np.testing.assert_array_equal(heads(world), before)


# --- refusals


def test_parts_that_make_no_model_are_refused() -> None:
    with pytest.raises(
        TaskError,
        match=r"personal: the field models must have 2 columns, .* got 3$",
    ):
        personal(fake(), [0], body=(0, 0, 0))


def test_detectors_have_no_head() -> None:
    world = fake(detects=True)
    with pytest.raises(ModelError, match="personal"):
        personal(world, [0])
