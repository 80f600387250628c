"""Runs of a tiny federation with a validation split,
and a method whose scores are known by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fedkin as fk
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from tests.option_lists import simulate_arguments

CLASSES = 4


def constant_data(clients: int = 4, validation: bool = True) -> FederatedData:
    """Every client has four training samples, one of each class, ten for validation and ten test
    samples: of class 0 there are four for validation and one for testing, of class 1 three and six,
    of class 2 three and three."""
    own = np.concatenate(
        [np.arange(4), np.repeat([0, 1, 2], [4, 3, 3]), np.repeat([0, 1, 2], [1, 6, 3])]
    )
    parts = [
        Ragged.of([np.arange(a, b) + 24 * u for u in range(clients)])
        for a, b in ((0, 4), (4, 14), (14, 24))
    ]
    x = np.zeros((24 * clients, 2), np.float32)
    y = np.tile(own, clients)
    train, held_out, test = parts
    return FederatedData(
        name="constant",
        x=x,
        y=y,
        classes=CLASSES,
        train=train,
        test=test,
        validation=held_out if validation else None,
    )


# Of a model that says a class for every sample.
VALIDATION_SCORES = {
    0: 0.4,
    1: 0.3,
    2: 0.3,
    3: 0.0,
}
TEST_SCORES = {0: 0.1, 1: 0.6, 2: 0.3, 3: 0.0}


def constant_model(parameters: int, said: int) -> np.ndarray:
    """A linear model that says one class for every sample: only its bias counts, and that comes
    last."""
    model = np.zeros(parameters, np.float32)
    model[parameters - CLASSES + said] = 1
    return model


@dataclass(frozen=True)
class Saying:
    """A method that learns nothing: after round r its one model says class ``says[r]``, the last of
    them from there on. Clients from ``known`` on get their cluster when they are in a cohort."""

    says: tuple[int, ...] = (3, 1, 0, 2)
    known: int = 100

    def init(self, world: World, stream: Stream) -> State:
        assignment = np.where(np.arange(world.total_clients) < self.known, 0, -1)
        return State(self._model(world.spec, 0), assignment)

    def round(self, world: World, state: State, cohort: np.ndarray, stream: Stream) -> State:
        return replace(state, models=self._model(world.spec, stream.round))

    def place(self, world: World, state: State, newcomers: np.ndarray, stream: Stream) -> State:
        assignment = state.assignment.copy()
        assignment[newcomers] = 0
        return replace(state, assignment=assignment)

    def _model(self, spec: ModelSpec, round: int) -> np.ndarray:
        return constant_model(spec.parameters, self.says[min(round, len(self.says) - 1)])[None]


def said(method: Any = None, data: FederatedData | None = None, **options: Any) -> fk.Run:
    """A run of ``Saying`` on the constant data."""
    data = constant_data() if data is None else data
    settings: dict[str, Any] = {"rounds": 5, "cohort": 2, "checkpoint_every": 2} | options
    return fk.simulate(method or Saying(), data, mclr(data), **simulate_arguments(settings))
