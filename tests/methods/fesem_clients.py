"""Five quadratic clients with their last solutions, and three models on a line, for tests of FeSEM.

One epoch of lr 0.5 goes half the way from the model to the client's target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fesem import FeSEM, FeSEMState
from fedkin.models import mlp
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.simulation.small_federation import federation

STREAM = Stream(3, 2, "method")
MODELS = np.array([[0, 0], [8, 0], [40, 0]], np.float32)
# last solutions: clients 0 1 2 are nearest to the first model, 3 and 4 to the second; their data
# say nothing of it
LOCAL = np.array([[1, 1], [0, -1], [3, 2], [7, 0], [9, 3]], np.float32)
NEAREST = np.array([0, 0, 0, 1, 1])
TARGET = np.array([[40, 0], [0, 2], [8, 2], [0, 4], [40, 0]], np.float32)
EXAMPLES = np.array([10, 20, 30, 40, 60])
EVERYBODY = np.arange(5)
NO_CLIENTS = np.zeros(0, np.int64)


def world(target: Any = TARGET, **options: Any) -> FakeWorld:
    return FakeWorld(target, np.resize(EXAMPLES, len(target)), LocalTraining(lr=0.5), **options)


def given(
    assignment: Any = (UNASSIGNED,) * 5, models: np.ndarray = MODELS, local: np.ndarray = LOCAL
) -> FeSEMState:
    return FeSEMState(models, np.array(assignment), local)


def after(
    cohort: Any = EVERYBODY,
    w: FakeWorld | None = None,
    state: FeSEMState | None = None,
    **options: Any,
) -> Any:
    return FeSEM(**options).round(w or world(), state or given(), np.asarray(cohort), STREAM)


CLIENTS = 12


def simulated() -> SimulatedWorld:
    """Twelve clients of six samples."""
    data = federation((6,) * CLIENTS)
    return SimulatedWorld(data, mlp(data, hidden=3), LocalTraining(epochs=1, batch_size=3, lr=0.1))
