"""Quadratic clients of three parameters and three clusters, one cluster per axis, for tests of
FlexCFL.

One epoch of lr 0.5 goes half the way from the model to the client's target, so from w_0 = (1, 1, 1)
an update is half of target - w_0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.flexcfl import FlexCFLState
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.shift import Shifted

ONE = np.ones(3, np.float32)
# updates from w_0: (1,0,0) (3,0,0) | (0,2,0) (0,6,0) | (0,0,1) (0,0,2)
UPDATE = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 1], [3, 0, 0], [0, 6, 0], [0, 0, 2]], np.float32)
TRUE_CLUSTERS = np.array([0, 1, 2, 0, 1, 2])
COUNTS = np.array([[10, 0, 0], [10, 10, 0], [10, 10, 10], [20, 0, 0], [20, 20, 0], [20, 20, 20]])
STREAM = Stream(3, 0, "init")
ROUND = Stream(3, 1, "round")


class RecordingWorld(FakeWorld):
    """A fake world that records its calls."""

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        reply = super().run(task, clients, stream)
        if task.work is not None:
            self.calls = [*getattr(self, "calls", []), (clients.tolist(), task.work)]
        if isinstance(task, Shifted):
            self.tested = clients.tolist()
            self.told = reply.shifted
        return reply


def world(
    update: np.ndarray = UPDATE, counts: np.ndarray | None = None, **options: Any
) -> RecordingWorld:
    target = (ONE + 2 * update).astype(np.float32)
    counts = COUNTS[np.arange(len(update)) % 6] if counts is None else counts
    return RecordingWorld(
        target,
        counts.sum(axis=1),
        LocalTraining(lr=0.5),
        start=lambda _: ONE,
        counts=counts,
        **options,
    )


def many(each: int = 20) -> np.ndarray:
    """Clients of the three clusters with lengths 1 .. each, shuffled."""
    rows = np.concatenate([np.outer(np.arange(1, each + 1), axis) for axis in np.eye(3)])
    return np.random.default_rng(0).permutation(rows).astype(np.float32)


def given(
    assignment: Any, models: Any = None, directions: Any = None, informed: bool = True
) -> FlexCFLState:
    """A state whose cluster k has the direction and the model of axis k, unless said otherwise."""
    assignment = np.asarray(assignment, np.int64)
    models = ONE + np.eye(3) if models is None else models
    directions = np.eye(3)[: len(models)] if directions is None else directions
    models = np.asarray(models, np.float32)
    directions = np.asarray(directions, np.float32)
    return FlexCFLState(
        models=models,
        assignment=assignment,
        start=ONE,
        directions=directions,
        informed=np.full(len(assignment), informed),
    )


def swap(w: FakeWorld, a: int, b: int) -> None:
    """Two clients exchange all they have."""
    assert w.counts is not None
    order = np.arange(w.total_clients)
    order[[a, b]] = b, a
    w.target = w.target[order]
    w.counts = w.counts[order]
    w.examples = w.examples[order]
