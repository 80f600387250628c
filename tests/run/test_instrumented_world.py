"""The lens changes nothing and sees everything."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, TrainingReply
from fedkin.run.instrumented_world import InstrumentedWorld, TrainingRecord, distances
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.run.toy_method import fake_world

STREAM = Stream(0, 1, "test")


@pytest.mark.parametrize("memory", [2**28, 0])
def test_means_have_the_same_bits_with_and_without_the_lens(tiny_world: SimulatedWorld, memory: int) -> None:
    models = np.stack([tiny_world.initial(Stream(k)) for k in range(2)])
    clients, model_index = np.array([0, 2, 3, 5]), np.array([0, 1, 1, 0])
    bare = tiny_world.train(models, clients, model_index, reduce=True, stream=STREAM)
    instrumented = InstrumentedWorld(tiny_world, memory)
    seen = instrumented.train(models, clients, model_index, reduce=True, stream=STREAM)
    assert bare.update.tobytes() == seen.update.tobytes()
    assert bare.weight is not None and seen.weight is not None
    assert bare.weight.tobytes() == seen.weight.tobytes()
    assert instrumented.training is not None and (instrumented.training.reply.weight is None) == (memory > 0)


def test_bytes_are_counted_once() -> None:
    through, bare = fake_world(), fake_world()
    instrumented = InstrumentedWorld(through)
    for world in (instrumented, bare):
        world.ledger.add("train", 8, 4)
    assert through.ledger.total() == bare.ledger.total() == (8, 4)


def test_single_updates_pass_untouched() -> None:
    world = fake_world()
    models, clients = np.zeros((1, 3), np.float32), np.arange(8)
    direct = world.train(models, clients, np.zeros(8, np.int64), stream=STREAM)
    through = InstrumentedWorld(world).train(models, clients, np.zeros(8, np.int64), stream=STREAM)
    np.testing.assert_array_equal(direct.update, through.update)
    assert through.weight is None


def test_missing_and_broken_replies_are_counted_until_the_next_round() -> None:
    world = fake_world(silent=frozenset({1, 2}), garbage=frozenset({4}))
    instrumented = InstrumentedWorld(world)
    instrumented.train(np.zeros((1, 3), np.float32), np.arange(8), np.zeros(8, np.int64), stream=STREAM)
    instrumented.train(np.zeros((1, 3), np.float32), np.arange(3), np.zeros(3, np.int64), stream=STREAM)
    assert (instrumented.missing, instrumented.nonfinite) == (4, 1)
    instrumented.begin(STREAM.at(2))
    assert (instrumented.missing, instrumented.nonfinite, instrumented.training) == (0, 0, None)


def test_a_reply_that_is_not_finite_is_told_with_its_client_and_round(caplog: pytest.LogCaptureFixture) -> None:
    instrumented = InstrumentedWorld(fake_world(silent=frozenset({1}), garbage=frozenset({4, 6})))
    instrumented.begin(STREAM.at(7))
    instrumented.train(
        np.zeros((1, 3), np.float32), np.array([6, 1, 4]), np.zeros(3, np.int64), reduce=True, stream=STREAM
    )
    instrumented.train(np.zeros((1, 3), np.float32), np.array([0, 1]), np.zeros(2, np.int64), stream=STREAM)
    [record] = caplog.records
    assert (record.name, record.levelname) == ("fedkin", "WARNING")
    assert record.getMessage() == "round 7: no finite reply from client 4, 6; excluded from this round"


def test_of_many_that_are_not_finite_twenty_are_named(caplog: pytest.LogCaptureFixture) -> None:
    instrumented = InstrumentedWorld(fake_world(clients=30, garbage=frozenset(range(30))))
    instrumented.train(np.zeros((1, 3), np.float32), np.arange(30), np.zeros(30, np.int64), stream=STREAM)
    [record] = caplog.records
    assert "client 0, 1, " in record.getMessage() and ", 19 ...;" in record.getMessage()
    assert instrumented.nonfinite == 30


def test_the_world_begins_with_the_lens() -> None:
    class Begun(FakeWorld):
        def begin(self, stream: Stream) -> None:
            begun.append(stream)

    begun: list[Stream] = []
    InstrumentedWorld(Begun(np.zeros((2, 3), np.float32), np.ones(2, int))).begin(STREAM.at(3))
    assert begun == [STREAM.at(3)]


def test_those_who_notice_a_shift_are_remembered_until_the_next_round() -> None:
    counts = np.full((8, 2), 10)
    world = fake_world(counts=counts)
    instrumented = InstrumentedWorld(world)
    instrumented.begin(STREAM)
    assert instrumented.detected is None, "nobody has asked"
    world.counts = counts - 9 * np.isin(np.arange(8), [2, 5, 7])[:, None]
    np.testing.assert_array_equal(instrumented.shifted(np.array([5, 0])), [True, False])
    np.testing.assert_array_equal(instrumented.shifted(np.array([2, 3])), [True, False])
    assert noticed(instrumented) == [2, 5]
    instrumented.note(np.array([2]))
    np.testing.assert_array_equal(instrumented.shifted(np.array([2]), threshold=0.0), [False])
    assert noticed(instrumented) == [2, 5], "what was noticed in a round stays noticed"
    instrumented.begin(STREAM.at(2))
    assert instrumented.detected is None


def noticed(instrumented: InstrumentedWorld) -> list[int]:
    assert instrumented.detected is not None
    return np.flatnonzero(instrumented.detected).tolist()


def test_who_asks_and_hears_no_has_asked() -> None:
    instrumented = InstrumentedWorld(fake_world(counts=np.full((8, 2), 10)))
    instrumented.shifted(np.arange(8))
    assert noticed(instrumented) == []


def test_those_who_note_are_remembered_until_the_next_round() -> None:
    instrumented = InstrumentedWorld(fake_world(counts=np.full((8, 2), 10)))
    instrumented.begin(STREAM)
    assert not instrumented.placed.any()
    instrumented.note(np.array([5, 2]))
    instrumented.note(np.array([7]))
    assert np.flatnonzero(instrumented.placed).tolist() == [2, 5, 7]
    instrumented.begin(STREAM.at(2))
    assert not instrumented.placed.any()


def test_memory_passes_through() -> None:
    counts = np.full((8, 2), 10)
    one, other = fake_world(counts=counts), fake_world(counts=counts)
    one.counts = other.counts = counts - 9 * (np.arange(8) < 4)[:, None]
    InstrumentedWorld(one).note(np.array([0]))
    InstrumentedWorld(other).recall(InstrumentedWorld(one).memory())
    np.testing.assert_array_equal(other.shifted(np.arange(8)), [False, True, True, True, *[False] * 4])


def test_similarities_without_an_answer_are_missing_replies() -> None:
    world = fake_world(silent=frozenset({1, 2}))
    instrumented, directions = InstrumentedWorld(world), np.eye(2, 3, dtype=np.float32)
    instrumented.begin(STREAM)
    found = instrumented.similarities(np.zeros(3, np.float32), directions, np.arange(4), stream=STREAM)
    np.testing.assert_array_equal(
        found, world.similarities(np.zeros(3, np.float32), directions, np.arange(4), stream=STREAM)
    )
    assert (instrumented.missing, instrumented.nonfinite) == (2, 0)


def test_distances_by_hand() -> None:
    # Client 0 goes from (0, 0) to (3, 4); client 1 never answers; client 2 from (10, 0) to (10, 1).
    # After the round its cluster's models lie at (0, 0) and (10, 3): distances 5 and 2.
    reply = TrainingReply(
        update=np.array([[3, 4], [0, 0], [0, 1]], np.float32),
        model_index=np.array([0, 0, 1]),
        examples=np.array([1, 1, 1]),
        loss=np.zeros(3),
        first_loss=np.zeros(3),
        arrived=np.array([True, False, True]),
        nonfinite=np.zeros(3, bool),
    )
    start = np.array([[0, 0], [10, 0]], np.float32)
    after = State(np.array([[0, 0], [10, 3]], np.float32), np.array([0, 0, 1]))
    found = distances(TrainingRecord(start, np.array([0, 1, 2]), reply), after)
    assert found is not None
    np.testing.assert_array_equal(found, [5.0, 2.0])
    assert distances(None, after) is None


def test_a_client_that_moves_is_measured_from_its_new_cluster() -> None:
    world = FakeWorld(np.array([[4.0, 0.0]], np.float32), np.array([1]), work=LocalTraining(lr=0.5))
    instrumented = InstrumentedWorld(world)
    instrumented.train(np.zeros((2, 2), np.float32), np.array([0]), np.array([0]), reduce=True, stream=STREAM)
    moved = State(np.array([[0, 0], [2, 1]], np.float32), np.array([1]))
    found = distances(instrumented.training, moved)  # its solution is (2, 0), its new cluster's model (2, 1)
    assert found is not None
    np.testing.assert_array_equal(found, [1.0])


@pytest.mark.parametrize("memory", [2**28, 0])
@pytest.mark.parametrize("reduce", [False, True])
def test_a_part_passes_and_is_no_training_to_look_at(tiny_world: SimulatedWorld, memory: int, reduce: bool) -> None:
    """What finds clusters says nothing of a round's discrepancy."""
    models, clients, model_index = tiny_world.initial(STREAM)[None], np.array([0, 2, 5]), np.zeros(3, np.int64)
    part = tiny_world.spec.head_bias
    bare = tiny_world.train(models, clients, model_index, part=part, reduce=reduce, stream=STREAM)
    instrumented = InstrumentedWorld(tiny_world, memory)
    through = instrumented.train(models, clients, model_index, part=part, reduce=reduce, stream=STREAM)
    assert through.update.tobytes() == bare.update.tobytes() and through.update.shape[1] == 2
    assert instrumented.training is None


def test_missing_parts_are_counted_and_broken_ones_told(caplog: pytest.LogCaptureFixture) -> None:
    instrumented = InstrumentedWorld(fake_world(silent=frozenset({1}), garbage=frozenset({4})))
    instrumented.train(
        np.zeros((1, 3), np.float32), np.arange(8), np.zeros(8, np.int64), part=slice(2, 3), stream=STREAM
    )
    assert (instrumented.missing, instrumented.nonfinite) == (1, 1)
    assert "client 4" in caplog.text


def test_detectors_are_measured_from_the_detector_they_trained() -> None:
    """A state says which model a solution has become a part of: (2, 0) of detector 1, which is at (2, 1) now."""

    class Detecting(State):
        def aggregated_into(self, clients: np.ndarray, trained: np.ndarray) -> np.ndarray:
            return trained

    world = FakeWorld(np.array([[4.0, 0.0]], np.float32), np.array([1]), work=LocalTraining(lr=0.5))
    instrumented = InstrumentedWorld(world)
    instrumented.train(np.zeros((2, 2), np.float32), np.array([0]), np.array([1]), reduce=True, stream=STREAM)
    found = distances(instrumented.training, Detecting(np.array([[9, 9], [2, 1]], np.float32), np.array([0])))
    assert found is not None
    np.testing.assert_array_equal(found, [1.0])


def test_everything_else_passes_through() -> None:
    world = fake_world()
    instrumented, models, clients = InstrumentedWorld(world), np.ones((2, 3), np.float32), np.arange(4)
    model_index = np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(instrumented.losses(models, clients), world.losses(models, clients))
    np.testing.assert_array_equal(
        instrumented.gradients(models, clients, model_index), world.gradients(models, clients, model_index)
    )
    np.testing.assert_array_equal(instrumented.clients(3), world.clients(3))
    np.testing.assert_array_equal(instrumented.initial(STREAM), world.initial(STREAM))
    np.testing.assert_array_equal(instrumented.shifted(clients), world.shifted(clients))
    np.testing.assert_array_equal(instrumented.classes(clients), world.classes(clients))
    counts = instrumented.detections(models, clients, model_index, np.zeros(4, np.int64))
    np.testing.assert_array_equal(counts, world.detections(models, clients, model_index, np.zeros(4, np.int64)))
    assert counts.sum() == 4
    instrumented.send(models, clients)
    assert world.ledger.down == {"send": 2 * 4 * 3 * 4}
    assert (instrumented.spec, instrumented.work, instrumented.ledger, instrumented.total_clients) == (
        world.spec,
        world.work,
        world.ledger,
        8,
    )
