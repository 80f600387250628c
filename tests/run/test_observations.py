"""Observations of the client work of a round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.metrics.observations import Observations, TrainingRecord, distances, join
from fedkin.run.metrics.round_records import training_record
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.fedper import EvaluatePersonal, Personal
from fedkin.tasks.losses import Losses
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import TrainingReply, train
from tests.run.toy_method import fake_world

STREAM = Stream(0, 1, "test")
ZERO = np.zeros((1, 3), np.float32)


def observed(world: FakeWorld) -> InstrumentedWorld:
    """A world whose round 1 has begun."""
    instrumented = InstrumentedWorld(world)
    instrumented.begin(STREAM)
    return instrumented


def trained(
    instrumented: InstrumentedWorld, clients: Any, models: np.ndarray = ZERO, **options: Any
) -> TrainingReply:
    clients = np.asarray(clients)
    return train(
        instrumented, models, clients, np.zeros(len(clients), np.int64), stream=STREAM, **options
    )


# --- replies that do not come, or cannot be used


def test_missing_and_broken_replies_are_counted_until_the_next_round() -> None:
    instrumented = observed(fake_world(silent=frozenset({1, 2}), garbage=frozenset({4})))
    trained(instrumented, range(8))
    trained(instrumented, range(3))
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (4, 1)
    instrumented.begin(STREAM.at(2))
    now = instrumented.observations
    assert (now.missing, now.nonfinite, now.training) == (0, 0, None)


def test_a_reply_that_is_not_finite_is_logged_with_its_client_and_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instrumented = observed(fake_world(silent=frozenset({1}), garbage=frozenset({4, 6})))
    instrumented.begin(STREAM.at(7))
    trained(instrumented, [6, 1, 4], reduce=True)
    trained(instrumented, [0, 1])
    [record] = caplog.records
    assert (record.name, record.levelname) == ("fedkin", "WARNING")
    words = (
        "round 7: the reply of client 4, 6 is not finite (train: update); it is excluded "
        "from this round"
    )
    assert record.getMessage() == words


def test_a_reply_with_an_unnamed_fault_is_logged_with_its_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observations = Observations(8, 3)
    wrong = np.array([True, False])
    reply = Reply({"losses": np.full((2, 1), np.nan)}, ~wrong, wrong)
    observations.observe(Losses(ZERO), np.array([5, 6]), reply)
    [record] = caplog.records
    assert (
        record.getMessage()
        == "round 3: the reply of client 5 is not finite (losses); it is excluded from this round"
    )
    assert (observations.missing, observations.nonfinite) == (0, 1)


def test_of_many_that_are_not_finite_twenty_are_named(caplog: pytest.LogCaptureFixture) -> None:
    instrumented = observed(fake_world(clients=30, garbage=frozenset(range(30))))
    trained(instrumented, range(30))
    [record] = caplog.records
    assert (
        "client 0, 1, " in record.getMessage()
        and ", 19 ... is not finite (train: update);" in record.getMessage()
    )
    assert instrumented.observations.nonfinite == 30


def test_a_client_with_several_rows_is_missing_once() -> None:
    instrumented = observed(fake_world(silent=frozenset({1, 2}), garbage=frozenset({3})))
    trained(instrumented, [0, 1, 1, 2, 3, 3])
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (2, 1)


def test_every_message_to_a_peer_that_is_silent_is_missing() -> None:
    """Clients 0 and 3 ask client 1, and both get no reply."""
    instrumented = observed(fake_world(silent=frozenset({1})))
    instrumented.run(Ask(), np.array([1, 2, 1]))
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (2, 0)


@pytest.mark.parametrize(
    "task", [Similarities(ZERO[0], np.eye(2, 3, dtype=np.float32), LocalTraining()), Losses(ZERO)]
)
def test_any_task_without_an_answer_is_a_missing_reply(task: Task) -> None:
    world = fake_world(silent=frozenset({1, 2}))
    instrumented = observed(world)
    found = instrumented.run(task, np.arange(4), STREAM)
    [name] = task.up.arrays
    np.testing.assert_array_equal(
        found.arrays[name], world.run(task, np.arange(4), STREAM).arrays[name]
    )
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (2, 0)


def test_similarities_of_a_zero_update_are_not_missing() -> None:
    """Client 0 is where it wants to be: it did reply, and has no direction."""
    world = FakeWorld(np.array([[0, 0, 0], [1, 0, 0]], np.float32), np.ones(2, int))
    instrumented = observed(world)
    task = Similarities(ZERO[0], np.eye(2, 3, dtype=np.float32), LocalTraining())
    cosine = instrumented.run(task, np.arange(2), STREAM).cosine
    np.testing.assert_array_equal(cosine, [[np.nan, np.nan], [1, 0]])
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (0, 0)


# --- shifts


def test_clients_that_notice_a_shift_are_remembered_until_the_next_round() -> None:
    counts = np.full((8, 2), 10)
    world = fake_world(counts=counts)
    instrumented = observed(world)
    assert instrumented.observations.detected is None, "no client was asked"
    world.counts = counts - 9 * np.isin(np.arange(8), [2, 5, 7])[:, None]
    np.testing.assert_array_equal(
        instrumented.run(Shifted(), np.array([5, 0])).shifted, [True, False]
    )
    np.testing.assert_array_equal(
        instrumented.run(Shifted(), np.array([2, 3])).shifted, [True, False]
    )
    assert noticed(instrumented) == [2, 5]
    instrumented.run(Note(), np.array([2]))
    np.testing.assert_array_equal(
        instrumented.run(Shifted(threshold=0.0), np.array([2])).shifted, [False]
    )
    assert noticed(instrumented) == [2, 5], "a shift noticed in a round stays noticed"
    instrumented.begin(STREAM.at(2))
    assert instrumented.observations.detected is None


def noticed(instrumented: InstrumentedWorld) -> list[int]:
    assert instrumented.observations.detected is not None
    return np.flatnonzero(instrumented.observations.detected).tolist()


def test_a_shift_test_without_a_shift_finds_no_client() -> None:
    instrumented = observed(fake_world(counts=np.full((8, 2), 10)))
    instrumented.run(Shifted(), np.arange(8))
    assert noticed(instrumented) == []


def test_clients_that_note_are_remembered_until_the_next_round() -> None:
    instrumented = observed(fake_world(counts=np.full((8, 2), 10)))
    assert not instrumented.observations.placed.any()
    instrumented.run(Note(), np.array([5, 2]))
    instrumented.run(Note(), np.array([7]))
    assert np.flatnonzero(instrumented.observations.placed).tolist() == [2, 5, 7]
    instrumented.begin(STREAM.at(2))
    assert not instrumented.observations.placed.any()


# --- the training of a round


@pytest.mark.parametrize("memory", [2**28, 0])
@pytest.mark.parametrize("reduce", [False, True])
def test_a_part_is_no_training_to_look_at(memory: int, reduce: bool) -> None:
    """What finds clusters says nothing of a round's discrepancy."""
    instrumented = InstrumentedWorld(fake_world(), memory)
    trained(instrumented, [0, 2, 5], part=slice(2, 3), reduce=reduce)
    assert instrumented.observations.training is None


def test_missing_parts_are_counted_and_broken_ones_logged(caplog: pytest.LogCaptureFixture) -> None:
    instrumented = observed(fake_world(silent=frozenset({1}), garbage=frozenset({4})))
    trained(instrumented, range(8), part=slice(2, 3))
    assert (instrumented.observations.missing, instrumented.observations.nonfinite) == (1, 1)
    assert "client 4" in caplog.text


@pytest.mark.parametrize("reduce", [False, True])
def test_calls_that_send_the_same_models_are_one_training(reduce: bool) -> None:
    """In the order of ids; other models are another training."""
    instrumented = observed(fake_world())
    whole = observed(fake_world())
    for clients in ([3, 5], [0, 4]):
        trained(instrumented, clients, reduce=reduce)
    trained(whole, [0, 3, 4, 5], reduce=reduce)
    one = instrumented.observations.training
    other = whole.observations.training
    assert one is not None and other is not None
    np.testing.assert_array_equal(one.clients, [0, 3, 4, 5])
    for name in ("update", "model_index", "examples", "loss", "first_loss", "arrived", "nonfinite"):
        np.testing.assert_array_equal(getattr(one.reply, name), getattr(other.reply, name))
    trained(instrumented, [7], ZERO.copy())
    now = instrumented.observations.training
    assert now is not None and now.clients.tolist() == [7]


def test_of_a_training_of_which_means_are_known_the_rows_are_joined() -> None:
    """Its updates are not known, so nor is a distance."""
    instrumented = InstrumentedWorld(fake_world(), 0)
    trained(instrumented, [3, 5], reduce=True)
    trained(instrumented, [0, 4], reduce=True)
    training = instrumented.observations.training
    assert training is not None and training.reply.weight is not None
    np.testing.assert_array_equal(training.clients, [0, 3, 4, 5])
    np.testing.assert_array_equal(training.reply.examples, [10, 13, 14, 15])
    assert distances(training, State(ZERO, np.zeros(8, np.int64))) is None


@pytest.mark.parametrize("memory", [2**28, 0])
def test_any_task_may_be_a_training(memory: int) -> None:
    """It says so by its hook ``training``: personal models are trained, and metrics know nothing of
    them."""
    instrumented = InstrumentedWorld(
        fake_world(silent=frozenset({3}), garbage=frozenset({4})), memory
    )
    instrumented.begin(STREAM)
    clients = np.array([0, 3, 4, 6])
    start = np.ones(3, np.float32)
    bodies = np.array([[0, 0], [1, 0]], np.float32)
    task = Personal(
        models=bodies,
        work=LocalTraining(lr=0.25),
        model_index=np.array([1, 0, 0, 0]),
        start=start,
        head=slice(1, 2),
    )
    reply = instrumented.run(task, clients, STREAM)
    training = instrumented.observations.training
    assert training is not None and training.models is bodies
    np.testing.assert_array_equal(training.clients, clients)
    np.testing.assert_array_equal(training.reply.model_index, [1, 0, 0, 0])
    np.testing.assert_array_equal(training.reply.examples * training.reply.arrived, [10, 0, 0, 16])
    np.testing.assert_array_equal(training.reply.arrived, [True, False, False, True])
    np.testing.assert_array_equal(training.reply.update, reply.update)  # of bodies, by model
    np.testing.assert_array_equal(training.reply.loss, [reply.loss[1], 0, 0, reply.loss[0]])
    assert (training.reply.loss < training.reply.first_loss)[[0, 3]].all()
    record = training_record(
        instrumented.observations, State(np.ones((2, 3), np.float32), np.zeros(8, np.int64))
    )
    assert record["train_loss"] == np.average(reply.loss[[1, 0]], weights=[10, 16])
    assert (record["missing"], record["nonfinite"]) == (1, 1)


def test_scoring_and_questions_are_no_training() -> None:
    instrumented = observed(fake_world())
    personal = EvaluatePersonal(
        np.zeros((1, 2), np.float32), np.zeros(3, int), np.ones(3, np.float32), slice(1, 2)
    )
    for task in (Losses(ZERO), personal):
        instrumented.run(task, np.arange(3), STREAM)
    assert instrumented.observations.training is None


# --- distances


def reply_of(update: Any, model_index: Any, arrived: Any) -> TrainingReply:
    update = np.array(update, np.float32)
    rows = len(update)
    return TrainingReply(
        update=update,
        model_index=np.array(model_index),
        examples=np.ones(rows, np.int64),
        loss=np.zeros(rows),
        first_loss=np.zeros(rows),
        arrived=np.array(arrived),
        nonfinite=np.zeros(rows, bool),
    )


# Client 0 goes from (0, 0) to (3, 4); client 1 never answers; client 2 from (10, 0) to (10, 1).
# After the round its cluster's models lie at (0, 0) and (10, 3): distances 5 and 2.
START = np.array([[0, 0], [10, 0]], np.float32)
AFTER = State(np.array([[0, 0], [10, 3]], np.float32), np.array([0, 0, 1]))


def test_distances_by_hand() -> None:
    reply = reply_of([[3, 4], [0, 0], [0, 1]], [0, 0, 1], [True, False, True])
    found = distances(TrainingRecord(START, np.array([0, 1, 2]), reply), AFTER)
    assert found is not None
    np.testing.assert_array_equal(found, [5.0, 2.0])
    assert distances(None, AFTER) is None


def test_distances_of_two_calls_by_hand() -> None:
    later = TrainingRecord(
        START, np.array([0, 1]), reply_of([[3, 4], [0, 0]], [0, 0], [True, False])
    )
    earlier = TrainingRecord(START, np.array([2]), reply_of([[0, 1]], [1], [True]))
    found = distances(join(earlier, later), AFTER)
    assert found is not None
    np.testing.assert_array_equal(found, [5.0, 2.0])


def test_a_client_that_moves_is_measured_from_its_new_cluster() -> None:
    world = FakeWorld(np.array([[4.0, 0.0]], np.float32), np.array([1]), work=LocalTraining(lr=0.5))
    instrumented = observed(world)
    trained(instrumented, [0], np.zeros((2, 2), np.float32), reduce=True)
    moved = State(np.array([[0, 0], [2, 1]], np.float32), np.array([1]))
    # Its solution is (2, 0), its new cluster's (2, 1).
    found = distances(instrumented.observations.training, moved)
    assert found is not None
    np.testing.assert_array_equal(found, [1.0])


def test_detectors_are_measured_from_the_detector_they_trained() -> None:
    """A state says which model a solution has become a part of: (2, 0) of detector 1, which is at
    (2, 1) now."""

    class Detecting(State):
        def aggregated_into(self, clients: np.ndarray, trained: np.ndarray) -> np.ndarray:
            return trained

    world = FakeWorld(np.array([[4.0, 0.0]], np.float32), np.array([1]), work=LocalTraining(lr=0.5))
    instrumented = observed(world)
    train(
        instrumented,
        np.zeros((2, 2), np.float32),
        np.array([0]),
        np.array([1]),
        reduce=True,
        stream=STREAM,
    )
    state = Detecting(np.array([[9, 9], [2, 1]], np.float32), np.array([0]))
    found = distances(instrumented.observations.training, state)
    assert found is not None
    np.testing.assert_array_equal(found, [1.0])
