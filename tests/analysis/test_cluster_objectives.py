"""FedSim's objectives of a model on a federation."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.simulation.fake_world import FakeWorld
from tests.simulation.small_federation import federation


def test_quadratic_clients_by_hand() -> None:
    """A client's score is the loss (w - target)^2: at w = 1 it is 1, 1, 4 and 36. The clusters have
    F_c = 2 and 36. The clients' samples (100, 1, 1, 1) are no weights."""
    targets = np.array([[0.0], [2.0], [3.0], [7.0]])
    world = FakeWorld(targets, np.array([100, 1, 1, 1]))
    found = fk.cluster_objectives(world, np.ones(1), np.arange(4), np.array([0, 0, 0, 1]))
    assert found.clients.tolist() == [1, 1, 4, 36]
    assert found.clusters.tolist() == [2, 36]
    assert (found.without_clusters, found.with_clusters) == (10.5, 19)
    assert found.regularisation == -8.5


def test_some_clients_and_the_model_that_is_given() -> None:
    targets = np.array([[0.0], [2.0], [3.0], [7.0]])
    world = FakeWorld(targets, np.ones(4, np.int64))
    found = fk.cluster_objectives(world, np.array([7.0]), np.array([1, 3]), np.array([0, 0]))
    assert found.clients.tolist() == [25, 0]
    assert world.ledger.total() == (0, 0) and any(world.ledger.down)


def test_real_losses_are_those_of_the_training_samples() -> None:
    """Cross entropy of logistic regression by NumPy."""
    data = federation()
    model = fk.models.mclr(data)
    world = fk.SimulatedWorld(data, model)
    w = world.initial(fk.Stream(3))
    kernel, bias = (w[part] for part in model.spec.slices.values())
    scores = data.x @ kernel.reshape(data.classes, -1).T + bias
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(data.y)), data.y]
    found = fk.cluster_objectives(world, w, np.arange(3), np.array([0, 1, 1]))
    expected = [losses[data.train[client]].mean() for client in range(3)]
    np.testing.assert_allclose(found.clients, expected, rtol=1e-5)
    assert found.with_clusters == pytest.approx(
        (expected[0] + (expected[1] + expected[2]) / 2) / 2, rel=1e-5
    )
