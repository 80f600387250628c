"""How far a client's features have moved: by hand, for samples without a spread, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.data.federated import FederatedData
from fedkin.tasks.feature_distance import FeatureDistance

FEATURES = np.array([[0.0, 0.0], [2.0, 4.0]], np.float32)


class Moves:
    """The features of client 0 are others from round 2 on."""

    def __init__(self, features: np.ndarray) -> None:
        self.features = features

    def step(self, original: Any, current: Any, round: int, reachable: Any, stream: Any) -> Any:
        if round != 2:
            return current, np.zeros(original.clients, bool)
        x = current.x.copy()
        x[current.train[0]] = self.features
        data = current.with_rows(current.train, current.test, x=x, y=current.y)
        return data, np.zeros(original.clients, bool)


def data_of(features: np.ndarray) -> FederatedData:
    """Two clients with the same training samples, and a test sample each."""
    x = np.concatenate([features, features[:1], features, features[:1]])
    half = len(features) + 1
    rows = [np.arange(half - 1), np.arange(half, 2 * half - 1)]
    tests = [np.array([half - 1]), np.array([2 * half - 1])]
    return FederatedData(
        name="two",
        x=x,
        y=np.zeros(len(x), np.int64),
        classes=2,
        train=fk.data.Ragged.of(rows),
        test=fk.data.Ragged.of(tests),
    )


def distances(first: np.ndarray, then: np.ndarray) -> list[float]:
    """The replies of both clients after the features of the first one have changed."""
    data = data_of(first)
    world = fk.SimulatedWorld(data, fk.models.mclr(data), shift=Moves(then))
    task = FeatureDistance("train")
    world.begin(fk.Stream(0, 1))
    before = world.run(task, np.arange(2))
    assert before.distance.tolist() == [0, 0]
    assert before.examples.tolist() == [len(first), len(first)]
    world.begin(fk.Stream(0, 2))
    return world.run(task, np.arange(2)).distance.tolist()


def test_a_move_is_measured_in_standard_deviations() -> None:
    """The standard deviations are 1 and 2, so their norm is sqrt(5); the means move by 3 and 4."""
    moved = distances(FEATURES, FEATURES + np.array([3.0, 4.0], np.float32))
    assert moved == [pytest.approx(5 / (5 + np.sqrt(5))), 0]


def test_a_move_by_one_standard_deviation_is_a_half() -> None:
    moved = distances(FEATURES, FEATURES + FEATURES.std(axis=0))
    assert moved == [pytest.approx(0.5), 0]


def test_any_move_of_constant_features_is_the_largest() -> None:
    constant = np.ones((2, 2), np.float32)
    assert distances(constant, constant + np.float32(0.1)) == [1, 0]
    assert distances(constant, constant) == [0, 0]


def test_features_that_are_no_numbers_are_refused() -> None:
    data = data_of(FEATURES)
    tokens = data.with_rows(data.train, data.test, x=data.x.astype(np.int32), y=data.y)
    world = fk.SimulatedWorld(data, fk.models.mclr(data))
    world.data = tokens
    with pytest.raises(MethodError, match="needs features that are numbers"):
        world.run(FeatureDistance("train"), np.arange(2))
