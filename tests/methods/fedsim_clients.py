"""Quadratic clients that remember their requests, for the tests of FedSim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.fedsim import FedSimState
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.train import Train
from tests.methods.test_conformance import arrays

AXES = np.eye(3)[[0, 1, 2, 0, 1, 2]]
# Two clients of a cluster per axis.
TARGET = (AXES * np.array([[8], [8], [8], [10], [10], [10]])).astype(np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 50, 60])
EVERYONE = np.arange(6)


class RecordingWorld(FakeWorld):
    """A fake world that records its calls; ``slope`` may take the place of the gradients."""

    def asked(self, verb: str, models: Any, clients: Any, gradient: bool) -> None:
        self.calls = [*getattr(self, "calls", []), (verb, models.copy(), tuple(clients), gradient)]

    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        return super().run(Gradients(models, model_index), clients).gradients

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if isinstance(task, Train):
            name = "gradient"
            wanted = task.gradient
            self.asked("train", task.models, clients, wanted)
        elif isinstance(task, Gradients):
            name = "gradients"
            wanted = True
            self.asked("gradients", task.models, clients, wanted)
        else:
            return super().run(task, clients, stream)
        reply = super().run(task, clients, stream)
        if not wanted:
            return reply
        return replace(
            reply, arrays=reply.arrays | {name: self.slope(task.models, clients, task.model_index)}
        )


W = TypeVar("W", bound=RecordingWorld)


def world_of(kind: type[W], target: Any = TARGET, lr: float = 0.5, **options: Any) -> W:
    """Clients that start at zero."""
    target = np.asarray(target, np.float32)
    return kind(
        target,
        EXAMPLES[: len(target)],
        LocalTraining(lr=lr),
        start=lambda _: np.zeros(target.shape[1]),
        **options,
    )


def world(target: Any = TARGET, lr: float = 0.5, **options: Any) -> RecordingWorld:
    return world_of(RecordingWorld, target, lr, **options)


def given(w: FakeWorld, model: Any = 0.0, last_cluster: Any = 0.0) -> FedSimState:
    everybody = np.zeros(w.total_clients, np.int64)
    full = [np.full(w.spec.parameters, value, np.float32) for value in (model, last_cluster)]
    return FedSimState(full[0][None], everybody, everybody - 1, full[1])


def same(a: Any, b: Any) -> bool:
    """Two states, to the last bit."""
    pairs = zip(arrays(a).values(), arrays(b).values(), strict=True)
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)
