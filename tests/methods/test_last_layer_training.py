"""What Hierarchical and Athena ask of clients in addition to training: their last layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.last_layer_training import last_layer_updates
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.train import Train

STREAM = Stream(2, 1, "policies")
EVERYONE = np.arange(4)


class RecordingWorld(FakeWorld):
    """A fake world: the last number of its vector is the bias. It remembers which clients were
    trained, and how."""

    asked: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        end = self.spec.parameters
        self.spec = replace(self.spec, head=slice(1, end), head_bias=slice(end - 1, end))

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if isinstance(task, Train):
            self.asked = (task, clients.tolist(), stream)
        return super().run(task, clients, stream)


THREE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], np.float32)
ZEROS = np.zeros(3, np.float32)


def layers(
    w: Any, layer: str = "bias", clients: Any = EVERYONE, epochs: int = 2
) -> tuple[list, list]:
    who, points = last_layer_updates(
        world=w, start=ZEROS, clients=np.asarray(clients), layer=layer, epochs=epochs, stream=STREAM
    )
    return who.tolist(), points.tolist()


def asked(**options: Any) -> RecordingWorld:
    return RecordingWorld(THREE, np.full(4, 5), LocalTraining(lr=1.0, epochs=9, steps=7), **options)


@pytest.mark.parametrize(("layer", "first"), [("bias", 2), ("last_layer", 1)])
def test_last_layers_come_from_training(layer: str, first: int) -> None:
    """Whatever the run counts, so many epochs; and only that slice is asked for."""
    w = asked()
    assert layers(w, layer, [2, 0]) == ([2, 0], THREE[[2, 0], first:].tolist())
    task, clients, stream = w.asked
    assert (clients, list(task.model_index), task.work.epochs, task.work.steps) == (
        [2, 0],
        [0, 0],
        2,
        None,
    )
    assert task.part == slice(first, 3) and not task.reduce
    assert stream.round == STREAM.round and stream != STREAM


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_that_gives_no_answer_has_no_last_layer(how: str) -> None:
    assert layers(asked(**{how: frozenset({0, 2})})) == ([1, 3], [[6], [12]])
    assert layers(asked(**{how: frozenset(range(4))})) == ([], [])
    assert layers(asked(), clients=np.zeros(0, np.int64)) == ([], [])


HAS = np.array([[3, 0, 1], [0, 2, 0], [1, 1, 1], [0, 0, 4]])


def test_last_layers_of_detectors_are_those_of_every_class_end_to_end() -> None:
    """Client i wants target + c for class c; zero where it has no sample of the class."""
    w = asked(counts=HAS, detects=True)
    who, points = layers(w)
    assert who == [0, 1, 2, 3]
    assert points == [[3, 0, 5], [0, 7, 0], [9, 10, 11], [0, 0, 14]]
    task, clients, _ = w.asked
    work = task.work
    assert (clients, task.model_index.tolist()) == ([0, 0, 1, 2, 2, 2, 3], [0] * 7)
    assert (work.positive.tolist(), work.epochs, work.steps) == ([0, 2, 1, 0, 1, 2, 2], 2, None)
    assert layers(w, "last_layer", [3])[1] == [[0, 0, 0, 0, 13, 14]]


@pytest.mark.parametrize("how", ["silent", "garbage"])
def test_a_client_without_all_of_its_detectors_is_left_out(how: str) -> None:
    who, points = layers(asked(counts=HAS, detects=True, **{how: frozenset({0, 3})}))
    assert (who, points) == ([1, 2], [[0, 7, 0], [9, 10, 11]])


@pytest.mark.parametrize("layer", ["bias", "last_layer"])
def test_a_model_without_a_last_layer(layer: str) -> None:
    w = asked()
    w.spec = replace(w.spec, head=None, head_bias=None)
    with pytest.raises(MethodError, match=r"weight \[C, d\] and a bias"):
        layers(w, layer)
