"""The lens changes nothing and sees everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.classes import Classes
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.label_errors import LabelErrors
from fedkin.tasks.losses import Losses
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.similarities import Directions, Similarities
from fedkin.tasks.train import Train, train
from tests.run.toy_method import fake_world

STREAM = Stream(0, 1, "test")
ZERO = np.zeros((1, 3), np.float32)


def seen(instrumented: InstrumentedWorld) -> Any:
    """The reply to the last training, as it was observed."""
    assert instrumented.observations.training is not None
    return instrumented.observations.training.reply


@pytest.mark.parametrize("memory", [2**28, 0])
@pytest.mark.parametrize("gradient", [False, True])
def test_means_have_the_same_bits_with_and_without_the_lens(
    tiny_world: SimulatedWorld, memory: int, gradient: bool
) -> None:
    models = np.stack([tiny_world.initial(Stream(k)) for k in range(2)])
    clients = np.array([0, 2, 3, 5])
    model_index = np.array([0, 1, 1, 0])
    task = Train(models, tiny_world.work, model_index, reduce=True, gradient=gradient)
    bare = tiny_world.run(task, clients, STREAM)
    instrumented = InstrumentedWorld(tiny_world, memory)
    through = instrumented.run(task, clients, STREAM)
    assert bare.arrays.keys() == through.arrays.keys()
    for name, array in bare.arrays.items():
        other = through.arrays[name]
        assert (array.dtype, array.shape, array.tobytes()) == (
            other.dtype,
            other.shape,
            other.tobytes(),
        ), name
    assert bare.weight is not None and through.weight is not None
    assert bare.weight.tobytes() == through.weight.tobytes()
    assert (seen(instrumented).weight is None) == (memory > 0)


@pytest.mark.parametrize("room", [0, 1])
def test_single_updates_are_observed_as_long_as_they_fit(room: int) -> None:
    """Four clients of three numbers of four bytes;
    the limit is the world's own where none is set."""

    class Limited(FakeWorld):
        @property
        def update_memory(self) -> int:
            return 4 * 3 * 4 - 1 + room

    world = Limited(np.zeros((8, 3), np.float32), np.ones(8, np.int64))
    for instrumented in (
        InstrumentedWorld(world),
        InstrumentedWorld(fake_world(), world.update_memory),
    ):
        assert instrumented.update_memory == world.update_memory
        train(instrumented, ZERO, np.arange(4), np.zeros(4, np.int64), reduce=True, stream=STREAM)
        assert (seen(instrumented).weight is None) == bool(room)


def test_bytes_are_counted_once() -> None:
    """The lens asks for single updates, which are as long as those that a mean is made of."""
    through = fake_world()
    bare = fake_world()
    for world in (InstrumentedWorld(through), bare):
        world.ledger.add("train", 8, 4)
        train(world, ZERO, np.arange(4), np.zeros(4, np.int64), reduce=True, stream=STREAM)
    assert through.ledger.total() == bare.ledger.total() == (8 + 4 * 12, 4 + 4 * 12)


def test_single_updates_pass_untouched() -> None:
    world = fake_world()
    task = Train(ZERO, world.work, np.zeros(8, np.int64))
    direct, through = (w.run(task, np.arange(8), STREAM) for w in (world, InstrumentedWorld(world)))
    np.testing.assert_array_equal(direct.update, through.update)
    assert through.weight is None


@pytest.mark.parametrize("memory", [2**28, 0])
@pytest.mark.parametrize("reduce", [False, True])
def test_a_part_passes(tiny_world: SimulatedWorld, memory: int, reduce: bool) -> None:
    models = tiny_world.initial(STREAM)[None]
    clients = np.array([0, 2, 5])
    model_index = np.zeros(3, np.int64)
    task = Train(
        models, tiny_world.work, model_index, reduce=reduce, part=tiny_world.spec.head_bias
    )
    bare, through = (
        w.run(task, clients, STREAM) for w in (tiny_world, InstrumentedWorld(tiny_world, memory))
    )
    assert through.update.tobytes() == bare.update.tobytes() and through.update.shape[1] == 2


def test_the_observed_task_is_the_task_of_the_world() -> None:
    """The single form, in place of the sums that the method wants."""

    class Asked(FakeWorld):
        def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
            tasks.append(task)
            return super().run(task, clients, stream)

    tasks: list[Any] = []
    world = Asked(np.zeros((2, 3), np.float32), np.ones(2, int))
    for memory in (2**28, 0):
        train(
            InstrumentedWorld(world, memory),
            ZERO,
            np.arange(2),
            np.zeros(2, int),
            reduce=True,
            stream=STREAM,
        )
    assert [task.reduce for task in tasks] == [False, True]


def test_the_world_begins_with_the_lens() -> None:
    class Begun(FakeWorld):
        def begin(self, stream: Stream) -> None:
            begun.append(stream)

    begun: list[Stream] = []
    InstrumentedWorld(Begun(np.zeros((2, 3), np.float32), np.ones(2, int))).begin(STREAM.at(3))
    assert begun == [STREAM.at(3)]


def test_memory_passes_through() -> None:
    counts = np.full((8, 2), 10)
    one = fake_world(counts=counts)
    other = fake_world(counts=counts)
    one.counts = other.counts = counts - 9 * (np.arange(8) < 4)[:, None]
    InstrumentedWorld(one).run(Note(), np.array([0]))
    InstrumentedWorld(other).recall(InstrumentedWorld(one).memory())
    shifted = other.run(Shifted(), np.arange(8)).shifted
    np.testing.assert_array_equal(shifted, [False, True, True, True, *[False] * 4])


def test_reassigned_clients_reach_the_inner_world() -> None:
    class Reassigned(FakeWorld):
        def reassigned(self, clients: Any) -> None:
            moved.append(clients.tolist())

    moved: list[list[int]] = []
    InstrumentedWorld(Reassigned(np.zeros((3, 3), np.float32), np.ones(3, int))).reassigned(
        np.array([0, 2])
    )
    assert moved == [[0, 2]]


MODELS = np.ones((2, 3), np.float32)
INDEX = np.array([0, 1, 0, 1])
TASKS: dict[str, Task] = {
    "ask": Ask(2),
    "classes": Classes(),
    "detections": Detections(MODELS, INDEX, np.zeros(4, np.int64)),
    "evaluate": Evaluate(MODELS, INDEX),
    "gradients": Gradients(MODELS, INDEX),
    "label_errors": LabelErrors(MODELS),
    "losses": Losses(MODELS),
    "note": Note(),
    "send": Directions(MODELS),
    "shifted": Shifted(),
    "similarities": Similarities(MODELS[0], MODELS, LocalTraining()),
    "train": Train(MODELS, LocalTraining(), INDEX),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_passes_through(name: str) -> None:
    """With all that its reply holds, and the bytes that it takes."""
    task = TASKS[name]
    clients = np.arange(4)
    worlds = [
        fake_world(silent=frozenset({1}), garbage=frozenset({3}), detects=name == "detections")
        for _ in range(2)
    ]
    bare = worlds[0].run(task, clients, STREAM)
    through = InstrumentedWorld(worlds[1]).run(task, clients, STREAM)
    assert task.name == name and bare.arrays.keys() == through.arrays.keys()
    for array in bare.arrays:
        np.testing.assert_array_equal(through.arrays[array], bare.arrays[array])
    np.testing.assert_array_equal(through.arrived, bare.arrived)
    np.testing.assert_array_equal(through.nonfinite, bare.nonfinite)
    assert (worlds[0].ledger.down, worlds[0].ledger.up) == (
        worlds[1].ledger.down,
        worlds[1].ledger.up,
    )


def test_everything_else_passes_through() -> None:
    world = fake_world(true_clusters=np.arange(8) % 2)
    instrumented = InstrumentedWorld(world)
    assert isinstance(instrumented, World)
    np.testing.assert_array_equal(instrumented.clients(3), world.clients(3))
    np.testing.assert_array_equal(instrumented.initial(STREAM), world.initial(STREAM))
    np.testing.assert_array_equal(instrumented.true_clusters, world.true_clusters)
    counts = instrumented.run(TASKS["classes"], np.arange(4)).classes
    assert counts.shape == (4, 1)
    instrumented.run(Directions(MODELS), np.arange(4))
    assert world.ledger.down == {"send": 2 * 4 * 3 * 4}
    assert (
        instrumented.spec,
        instrumented.work,
        instrumented.ledger,
        instrumented.total_clients,
    ) == (
        world.spec,
        world.work,
        world.ledger,
        8,
    )
