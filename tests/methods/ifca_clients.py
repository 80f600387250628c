"""Five quadratic clients that choose among three models on a line, for tests of IFCA.

One epoch of lr 0.5 goes half the way from the model to the client's target; the loss is half the
squared distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.methods.ifca import IFCA
from fedkin.models import mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import Train
from tests.simulation.small_federation import federation

STREAM = Stream(3, 2, "method")
# models at 0, 8 and 40 on a line; clients 0 1 2 are nearest to the first, 3 and 4 to the second,
# no client to the third
MODELS = np.array([[0, 0], [8, 0], [40, 0]], np.float32)
TARGET = np.array([[2, 0], [0, 2], [1, 1], [8, 4], [10, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 60])
NEAREST = np.array([0, 0, 0, 1, 1])
EVERYBODY = np.arange(5)


class RecordingWorld(FakeWorld):
    """A fake world that records its calls."""

    trained: tuple[Any, ...] = ()
    asked: tuple[Any, ...] = ()  # for the losses of all models

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if isinstance(task, Train):
            self.trained = (*self.trained, (clients.tolist(), task.model_index, task.work))
        if isinstance(task, Losses):
            self.asked = (*self.asked, clients.tolist())
        return super().run(task, clients, stream)


def world(target: Any = TARGET, **options: Any) -> RecordingWorld:
    return RecordingWorld(
        target, np.resize(EXAMPLES, len(target)), LocalTraining(lr=0.5), **options
    )


def given(assignment: Any = (UNASSIGNED,) * 5, models: np.ndarray = MODELS) -> State:
    return State(models, np.array(assignment))


def after(
    cohort: Any = EVERYBODY, w: FakeWorld | None = None, state: State | None = None, **options: Any
) -> Any:
    return IFCA(**options).round(w or world(), state or given(), np.asarray(cohort), STREAM)


CLIENTS = 12


def simulated(work: LocalTraining | None = None) -> SimulatedWorld:
    """Twelve clients of six samples."""
    data = federation((6,) * CLIENTS)
    return SimulatedWorld(
        data, mlp(data, hidden=3), work or LocalTraining(epochs=1, batch_size=3, lr=0.1)
    )
