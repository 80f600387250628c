"""ATHENA-FL's combined classifier against vectors: the class of the highest score, the lowest class
of equals; and its two-class split, which clients are found to share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.methods.athena import Athena
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from tests.methods.last_layer_clients import INIT
from tests.simulation.numpy_detectors import linear

Oracle = Callable[[str], dict[str, Any]]
ALL_THREE_MODELS = np.array([[0, 1, 2]])


def scored(vector: dict[str, Any], labels: np.ndarray) -> np.ndarray:
    """How many of each client's samples, one each, are of the class that three detectors together
    say. Sample i has the scores as its features, and detector c returns feature c."""
    x = np.array(vector["scores"], np.float32)
    rows = Ragged.of(list(np.arange(len(x))[:, None]))
    data = FederatedData(
        name="scores", x=x, y=labels.astype(np.int64), classes=3, train=rows, test=rows
    )
    models = np.concatenate([np.eye(3), np.zeros((3, 1))], axis=1).astype(np.float32)
    clients = np.arange(len(x))
    return evaluate(
        SimulatedWorld(data, linear(3)),
        models,
        clients,
        np.repeat(ALL_THREE_MODELS, len(x), axis=0),
    ).correct


def test_the_class_of_the_highest_score_and_the_first_of_equals(oracle: Oracle) -> None:
    vector = oracle("others")["ova"]
    prediction = np.array(vector["prediction"])
    np.testing.assert_array_equal(scored(vector, prediction), [1, 1, 1])
    for other in (1, 2):
        np.testing.assert_array_equal(scored(vector, (prediction + other) % 3), [0, 0, 0])


def pairs(seed: int = 0) -> FederatedData:
    """The two-class split of the authors: clients 2i - 1 and 2i share the classes 2i - 2 and 2i -
    1, of ten."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(10), 24)
    y = 2 * (owner // 2) + np.arange(len(owner)) % 2
    x = (3 * np.eye(10)[y] + rng.normal(scale=0.3, size=(len(y), 10))).astype(np.float32)
    rows = np.arange(len(y)).reshape(10, 24)
    return FederatedData(
        name="pairs",
        x=x,
        y=y,
        classes=10,
        train=Ragged.of(list(rows[:, 8:])),
        test=Ragged.of(list(rows[:, :8])),
    )


@pytest.mark.parametrize("layer", ["bias", "last_layer"])
def test_ten_detectors_in_five_clusters(layer: Any) -> None:
    """Each cluster has two classes and their detectors, no class has two, and everybody uses all
    ten."""
    w = SimulatedWorld(pairs(), linear(10), LocalTraining(batch_size=32, lr=0.5))
    method = Athena("kmeans", clusters=5, pretraining=5, layer=layer)
    state = method.init(w, INIT)
    np.testing.assert_array_equal(state.assignment, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    np.testing.assert_array_equal(state.positive, np.arange(10))
    np.testing.assert_array_equal(state.home, np.arange(10) // 2)
    np.testing.assert_array_equal(state.table, [np.arange(10)] * 5)
