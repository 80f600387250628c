"""Quadratic clients whose last layer moves to where they want it, and a small simulated federation,
for the tests of Hierarchical and Athena.

One epoch of lr 1 goes all the way from the model to the client's target: from zeros, the update is
the target.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.shift import Note
from fedkin.tasks.train import Train

INIT = Stream(3, 0, "init")
ROUND = Stream(3, 1, "method")
NO_CLIENTS = np.zeros(0, np.int64)


class RecordingWorld(FakeWorld):
    """A fake world that records its calls, where clients may arrive late: ``late`` {round:
    number}."""

    late: Any = None
    noted: Any = None

    def clients(self, round: int) -> Any:
        return np.arange(
            self.total_clients - sum(n for when, n in (self.late or {}).items() if when > round)
        )

    def run(self, task: Task, clients: Any, stream: Stream | None = None) -> Reply:
        if isinstance(task, Train):
            self.calls = [*getattr(self, "calls", []), (clients.tolist(), task.work, task.part)]
        if isinstance(task, Note):
            self.noted = clients.tolist()
        return super().run(task, clients, stream)


def world(points: Any, late: Any = None, **options: Any) -> RecordingWorld:
    """Client i has 10 i + 10 examples and wants point i."""
    points = np.asarray(points, np.float32)
    examples = 10 * np.arange(1, len(points) + 1)
    made = RecordingWorld(
        points,
        examples,
        LocalTraining(lr=1.0),
        start=lambda _: np.zeros(points.shape[1]),
        **options,
    )
    made.late = late
    return made


def started(method: Any, w: Any, stream: Stream = INIT) -> Any:
    return method.init(w, stream)


def groups(state: Any) -> list[list[int]]:
    """Clients that share a cluster, by lowest client, without unassigned clients."""
    numbers = np.unique(state.assignment[state.assignment >= 0])
    return sorted(np.flatnonzero(state.assignment == number).tolist() for number in numbers)


# --- nine simulated clients of three clusters, a cluster being two of the six classes; the tenth is
# unlike all others

CLIENTS = 9


@cache
def clustered_data(strange: bool = False, seed: int = 1) -> FederatedData:
    rng = np.random.default_rng(seed)
    clients = CLIENTS + strange
    owner = np.repeat(np.arange(clients), 12)
    y = 2 * (owner % 3) + np.arange(len(owner)) % 2
    x = (np.eye(6)[y] + rng.normal(scale=0.2, size=(len(y), 6))).astype(np.float32)
    if strange:
        x[owner == CLIENTS] *= -20
    rows = np.arange(len(y)).reshape(clients, 12)
    train = Ragged.of(list(rows[:, 4:]))
    test = Ragged.of(list(rows[:, :4]))
    return FederatedData(
        name="kinds",
        x=x,
        y=y,
        classes=6,
        train=train,
        test=test,
        true_clusters=np.arange(clients) % 3,
    )


def simulated(
    data: FederatedData | None = None, work: LocalTraining | None = None, **options: Any
) -> SimulatedWorld:
    data = data or clustered_data()
    return SimulatedWorld(
        data, mclr(data), work or LocalTraining(epochs=1, batch_size=4, lr=0.1), **options
    )
