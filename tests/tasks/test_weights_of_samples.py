"""Weights of samples in the data: a sample of weight 2 is two samples, in losses, mixtures and own
fits; and the unit of the weights does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.fedem import MixtureWeights, TrainMixture
from fedkin.tasks.losses import Losses
from fedkin.tasks.pulled_fit import EvaluatePulled

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2)).astype(np.float32)
Y = X[:, 0] + 0.3 * RNG.normal(size=24)
CLIENTS = np.arange(24) % 3
TIMES = 1 + np.arange(24) % 4  # weight of each sample
EVERYONE = np.arange(3)
MODELS = np.array([[0.8, 0.1, 0.1], [-0.6, 0.2, -0.1]], np.float32)
STREAM = Stream(0, 1, "method")
SCALE = {"mean": 0.0, "scale": 1.0}


def data_of(x: Any, y: Any, clients: Any, **options: Any) -> FederatedData:
    return fk.data.from_arrays(
        x, y, clients=clients, task="regression", test=0, label_scale_from=SCALE, **options
    )


def weighted(unit: float = 1.0) -> FederatedData:
    return data_of(X, Y, CLIENTS, weight=unit * TIMES)


def repeated() -> FederatedData:
    rows = np.repeat(np.arange(24), TIMES)
    return data_of(X[rows], Y[rows], CLIENTS[rows])


def world_of(data: FederatedData, engine: str = "jax") -> SimulatedWorld:
    model: Any = fk.models.mclr(data)
    if engine == "torch":
        torch = pytest.importorskip("torch")
        model = fk.torch_model(lambda: torch.nn.Linear(2, 1), data)
    return SimulatedWorld(data, model, LocalTraining(lr=0.01))


@pytest.mark.parametrize("engine", ["jax", "torch"])
def test_losses_by_which_clients_choose(engine: str) -> None:
    found = world_of(weighted(7.0), engine).run(Losses(MODELS), EVERYONE).losses
    expected = world_of(repeated(), engine).run(Losses(MODELS), EVERYONE).losses
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    unweighted = world_of(data_of(X, Y, CLIENTS), engine).run(Losses(MODELS), EVERYONE).losses
    assert (np.abs(unweighted / expected - 1) > 1e-3).any()


def test_mixtures() -> None:
    shares = np.tile([0.3, 0.7], (3, 1))
    task = MixtureWeights(MODELS, shares, dispersion=0.2)
    found = world_of(weighted(7.0)).run(task, EVERYONE).membership
    expected = world_of(repeated()).run(task, EVERYONE).membership
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    one = LocalTraining(epochs=1, batch_size=100, lr=0.01)
    task = TrainMixture(MODELS.reshape(1, -1), one, shares, dispersion=0.2)
    found = world_of(weighted(7.0)).run(task, EVERYONE, STREAM)
    expected = world_of(repeated()).run(task, EVERYONE, STREAM)
    np.testing.assert_allclose(found.membership, expected.membership, rtol=1e-5)
    # The dispersion is a mean over samples, and repeated samples are more samples.
    spread = found.deviations.sum() / found.examples.sum()
    sizes = np.bincount(CLIENTS)
    times = np.bincount(CLIENTS, TIMES)
    assert (times / sizes == times[0] / sizes[0]).all()
    expected_spread = expected.deviations.sum() / expected.examples.sum()
    assert spread == pytest.approx(expected_spread, rel=1e-5)


def test_own_fits_do_not_depend_on_the_unit_of_weights() -> None:
    """The pull is in samples: with weights of 100 it would be a hundred times weaker."""
    task = EvaluatePulled(MODELS, np.zeros(3, np.int64), split="train", strength=3.0)
    one = world_of(weighted()).run(task, EVERYONE).sums
    many = world_of(weighted(100.0)).run(task, EVERYONE).sums
    np.testing.assert_allclose(one, many, rtol=1e-5)
