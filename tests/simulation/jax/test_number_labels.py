"""Labels that are numbers reach training as they are."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.batch_plan import label_array
from fedkin.tasks.train import Train

CLIENTS = 4
EACH = 50


def federation() -> fk.data.FederatedData:
    """Labels of standard deviation 1, nearly all of which would be 0 or 1 as whole numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * EACH, 2)).astype(np.float32)
    y = x[:, 0] + rng.normal(size=len(x))
    owners = np.repeat(np.arange(CLIENTS), EACH)
    return fk.data.from_arrays(x, y, clients=owners, test=0.2, task="regression")


@pytest.mark.parametrize("calls", [1, 3], ids=["gathered", "kept on the device"])
def test_a_full_batch_step_of_linear_regression_by_hand(calls: int) -> None:
    """w - (w - Z'(Z w - y) / n) for each client, from a start model that is not 0."""
    data = federation()
    world = SimulatedWorld(data, fk.models.mclr(data), fk.SGD(lr=1.0, batch_size=1000))
    start = np.array([0.3, 0.2, 0.1], np.float32)
    everybody = np.arange(CLIENTS)
    for call in range(calls):
        task = Train(start[None], world.work, np.zeros(CLIENTS, np.int64))
        reply = world.run(task, everybody, fk.Stream(0, call, "train"))
        for client in everybody:
            rows = data.train[int(client)]
            design = np.concatenate([data.x[rows], np.ones((len(rows), 1))], axis=1)
            slope = design.T @ (design @ start - data.y[rows]) / len(rows)
            np.testing.assert_allclose(reply.update[client], -slope, atol=1e-5)


def test_classes_are_whole_numbers_and_numbers_are_not() -> None:
    assert label_array(np.array([0, 3], np.int64)).dtype == np.int32
    assert label_array(np.array([0.5, 1.5])).tolist() == [0.5, 1.5]
