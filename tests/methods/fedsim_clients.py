"""Quadratic clients that remember what they were asked, for the tests of FedSim."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from fedkin.core.world import LocalTraining
from fedkin.methods.fedsim import FedSimState
from fedkin.simulation.fake_world import FakeWorld

AXES = np.eye(3)[[0, 1, 2, 0, 1, 2]]
TARGET = (AXES * np.array([[8], [8], [8], [10], [10], [10]])).astype(np.float32)  # two clients of a cluster per axis
EXAMPLES = np.array([10, 20, 30, 40, 50, 60])
EVERYONE = np.arange(6)


class RecordingWorld(FakeWorld):
    """A fake world that records its calls; ``slope`` may take the place of the gradients."""

    def asked(self, verb: str, models: Any, clients: Any, gradient: bool) -> None:
        self.calls = [*getattr(self, "calls", []), (verb, models.copy(), tuple(clients), gradient)]

    def slope(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        return super().gradients(models, clients, model_index)

    def train(
        self, models: Any, clients: Any, model_index: Any = None, *, gradient: bool = False, **options: Any
    ) -> Any:
        self.asked("train", models, clients, gradient)
        reply = super().train(models, clients, model_index, gradient=gradient, **options)
        return replace(reply, gradient=self.slope(models, clients, reply.model_index)) if gradient else reply

    def gradients(self, models: Any, clients: Any, model_index: Any) -> np.ndarray:
        self.asked("gradients", models, clients, True)
        return self.slope(models, clients, model_index)


W = TypeVar("W", bound=RecordingWorld)


def world_of(kind: type[W], target: Any = TARGET, lr: float = 0.5, **options: Any) -> W:
    """Clients that start at zero."""
    target = np.asarray(target, np.float32)
    return kind(
        target, EXAMPLES[: len(target)], LocalTraining(lr=lr), start=lambda _: np.zeros(target.shape[1]), **options
    )


def world(target: Any = TARGET, lr: float = 0.5, **options: Any) -> RecordingWorld:
    return world_of(RecordingWorld, target, lr, **options)


def given(w: FakeWorld, model: Any = 0.0, last_cluster: Any = 0.0) -> FedSimState:
    everybody = np.zeros(w.total_clients, np.int64)
    full = [np.full(w.spec.parameters, value, np.float32) for value in (model, last_cluster)]
    return FedSimState(full[0][None], everybody, everybody - 1, full[1])


def same(a: Any, b: Any) -> bool:
    """Two states, to the last bit."""
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)]
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)
