"""FedCCFA in whole runs: clients share the rows of the classes that they label alike."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.methods.fedccfa import _as_layers, _by_class
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.fedccfa import balanced_positions

LOCAL = fk.LocalTraining(lr=0.05, epochs=2)
GROUPS = np.arange(8) % 2
SWAPPED = (1, 2)  # classes that the clients of group 1 exchange


def swapped() -> fk.FederatedData:
    data = fk.data.digits(partition="iid", clients=8)
    y = data.y.copy()
    for split in ("train", "test"):
        for client in np.flatnonzero(GROUPS).tolist():
            rows = data.part(split)[client]
            first, second = SWAPPED
            exchanged = np.where(y[rows] == first, second, y[rows])
            y[rows] = np.where(y[rows] == second, first, exchanged)
    return data.with_rows(data.train, data.test, y=y)


@pytest.mark.parametrize(
    ("method", "rounds"), [(fk.FedCCFA(eps=0.03), 15), (fk.FedCCFA(eps=0.35, changes=True), 4)]
)
def test_only_the_rows_of_exchanged_classes_differ_between_groups(
    method: fk.FedCCFA, rounds: int
) -> None:
    data = swapped()
    model = fk.models.mlp(data)
    world = SimulatedWorld(data, model, LOCAL)
    state = method.init(world, Stream(0, 0, "init"))
    for number in range(1, rounds + 1):
        state = method.round(world, state, np.arange(8), Stream(0, number, "method"))
    rows = _by_class(state.heads, 10)
    for label in range(10):
        # Clients of a group have equal rows.
        pattern = [np.array_equal(rows[0, label], rows[i, label]) for i in range(8)]
        expected = GROUPS == 0 if label in SWAPPED else np.ones(8, bool)
        assert pattern == expected.tolist(), label


def test_a_swap_of_labels_costs_less_than_with_one_model() -> None:
    data = swapped()
    accuracy = [
        fk.simulate(method, data, fk.models.mlp(data), rounds=20, cohort=8, local=LOCAL).summary()[
            "final_accuracy"
        ]
        for method in (fk.FedCCFA(eps=0.03), fk.FedAvg())
    ]
    assert accuracy[0] > accuracy[1] + 0.03


def test_layers_are_split_into_rows_and_joined_again() -> None:
    """The weight comes first, row by row, and then all biases."""
    layers = np.arange(16, dtype=np.float32).reshape(2, 8)
    rows = _by_class(layers, 2)
    np.testing.assert_array_equal(rows[0], [[0, 1, 2, 6], [3, 4, 5, 7]])
    np.testing.assert_array_equal(_as_layers(rows), layers)


def test_balanced_samples_are_as_many_of_each_class_as_the_rarest_has() -> None:
    labels = np.array([3, 0, 0, 3, 3, 0, 0])
    assert balanced_positions(labels, 2).tolist() == [0, 1, 2, 3]
    assert balanced_positions(labels, 9).tolist() == [0, 1, 2, 3, 4, 5]
    assert balanced_positions(np.array([1, 1, 2]), 5).tolist() == [0, 2]


def test_a_model_with_one_layer_is_refused() -> None:
    data = fk.data.digits(clients=4)
    with pytest.raises(MethodError, match="hidden layers"):
        fk.FedCCFA().init(SimulatedWorld(data, fk.models.mclr(data)), Stream(0, 0, "init"))
