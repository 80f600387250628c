"""Training and scoring on JAX's default device, compared with the CPU.

``benchmarks.gpu`` runs these tests on an accelerator. Elsewhere the default device is the CPU."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import cnn, mclr, mlp
from fedkin.models.model import Model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import TrainingReply, train

CLIENTS = np.arange(9)
WORK = LocalTraining(epochs=2, batch_size=4, lr=0.05)
# Exact products: a device rounds to TF32 otherwise. Sums still have another order.
EXACT = "highest"


def images() -> FederatedData:
    """Nine clients with 3 to 11 grey images of 16 x 16."""
    rng = np.random.default_rng(0)
    rows = Ragged.consecutive(np.arange(3, 12))
    x = rng.random((int(rows.sizes.sum()), 16, 16), np.float32)
    y = rng.integers(0, 4, len(x))
    return FederatedData(name="images", x=x, y=y, classes=4, train=rows, test=rows)


def trained(model: Model, lanes: int, start: np.ndarray) -> TrainingReply:
    with jax.default_matmul_precision(EXACT):
        world = SimulatedWorld(images(), model, WORK, clients_per_batch=lanes)
        return train(world, start, CLIENTS, np.zeros(9, np.int64), stream=Stream(1, 2))


@pytest.mark.parametrize("name", ["mclr", "mlp", "cnn"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_the_default_device_trains_as_the_cpu_does(
    name: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {"mclr": mclr, "mlp": mlp, "cnn": cnn}[name](images())
    start = model.initial(Stream(3).words())[None]
    ours = trained(model, lanes, start)
    cpu = jax.local_devices(backend="cpu")
    monkeypatch.setattr("fedkin.simulation.jax.workers.local_devices", lambda _: cpu)
    expected = trained(model, 1, start)
    assert np.abs(expected.update).max() > 0.01
    np.testing.assert_allclose(ours.update, expected.update, atol=2e-5, rtol=1e-3)
    np.testing.assert_allclose(ours.loss, expected.loss, atol=1e-5, rtol=1e-4)


def test_the_default_device_scores_as_the_cpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(images())
    start = model.initial(Stream(3).words())[None]
    with jax.default_matmul_precision(EXACT):
        zeros = np.zeros(9, np.int64)
        ours = evaluate(SimulatedWorld(images(), model, WORK), start, CLIENTS, zeros)
        cpu = jax.local_devices(backend="cpu")
        monkeypatch.setattr("fedkin.simulation.jax.workers.local_devices", lambda _: cpu)
        expected = evaluate(SimulatedWorld(images(), model, WORK), start, CLIENTS, zeros)
    np.testing.assert_array_equal(ours.examples, expected.examples)
    np.testing.assert_allclose(ours.loss, expected.loss, atol=1e-5, rtol=1e-4)
