"""The compiled local training against its NumPy reference, and one step against a published
formula's vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import as_model, mclr, mlp
from fedkin.models.model import Model
from fedkin.simulation.batching import epoch_batches, step_batches
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train
from tests.simulation import numpy_reference
from tests.simulation.small_federation import EVERYONE, SIZES, federation, models, samples

DATA = federation()
STREAM = Stream(3, 2, "run").child("train")
WHICH = np.array([0, 1, 1, 0, 1, 0, 1])
# 64 hidden units: wide enough for the weight gradient that is written out sample by sample
NETWORKS = {
    "mclr": ((6, 3), mclr),
    "mlp": ((6, 64, 3), lambda data, l2: mlp(data, hidden=64, l2=l2)),
}

SGD = LocalTraining(epochs=3, batch_size=10, lr=0.1)
WORK = {
    "one epoch": replace(SGD, epochs=1),
    "three epochs": SGD,
    "one sample at a time": replace(SGD, batch_size=1),
    "larger than every client": replace(SGD, batch_size=200),
    "steps": replace(SGD, steps=9),
    "proximal": replace(SGD, mu=1.0),
    "momentum": replace(SGD, momentum=0.9, lr=0.02),
    "proximal momentum": replace(SGD, mu=0.5, momentum=0.5),
    "adam": replace(SGD, optimizer="adam", lr=0.01),
    "proximal adam": replace(SGD, optimizer="adam", lr=0.01, mu=1.0),
}


def batch_lists(client: int, work: LocalTraining, epochs: int) -> tuple[list[np.ndarray], int]:
    """The client's batches as lists of sample numbers, as the run's stream draws them."""
    rng = STREAM.child("batches").client(client)
    made = (
        epoch_batches(SIZES[client], work.batch_size, epochs, rng)
        if work.steps is None
        else step_batches(SIZES[client], work.batch_size, work.steps, rng)
    )
    return [row[:count] for row, count in zip(made.rows, made.valid, strict=True)], made.per_epoch


def assert_equals_twin(name: str, work: LocalTraining, l2: float = 0.0) -> None:
    widths, make = NETWORKS[name]
    model = make(DATA, l2)
    start = models(model)
    got = train(SimulatedWorld(DATA, model), start, EVERYONE, WHICH, work=work, stream=STREAM)
    epochs = np.broadcast_to(work.epochs, len(SIZES))
    for i, client in enumerate(EVERYONE.tolist()):
        batches, per_epoch = batch_lists(client, work, int(epochs[i]))
        x, y = samples(DATA, client)
        update, last, first = numpy_reference.train(
            start=start[WHICH[i]],
            widths=widths,
            x=x,
            y=y,
            batches=batches,
            per_epoch=per_epoch,
            work=work,
            l2=l2,
        )
        np.testing.assert_allclose(
            got.update[i], update, rtol=1e-4, atol=3e-6, err_msg=f"client {client}"
        )
        np.testing.assert_allclose([got.loss[i], got.first_loss[i]], [last, first], rtol=1e-5)
    np.testing.assert_array_equal(got.examples, SIZES)
    np.testing.assert_array_equal(got.model_index, WHICH)
    assert got.arrived.all() and not got.nonfinite.any() and got.weight is None
    assert got.update.dtype == np.float32


@pytest.mark.parametrize("work", WORK)
def test_mlp_equals_its_twin(work: str) -> None:
    assert_equals_twin("mlp", WORK[work])


@pytest.mark.parametrize("work", ["three epochs", "steps", "adam"])
def test_logistic_regression_equals_its_twin(work: str) -> None:
    assert_equals_twin("mclr", WORK[work])


@pytest.mark.parametrize("name", NETWORKS)
def test_penalised_training_equals_its_twin(name: str) -> None:
    """With l2 as large as this, leaving the penalty out of gradient or loss would show at once."""
    assert_equals_twin(name, SGD, l2=0.05)


def test_every_row_has_its_own_number_of_epochs() -> None:
    assert_equals_twin("mlp", replace(SGD, epochs=np.array([1, 2, 3, 4, 3, 2, 1])))


def test_the_twins_gradient_is_the_slope_of_its_loss() -> None:
    """So that the twin itself rests on something: central differences along every coordinate."""
    widths, make = NETWORKS["mlp"]
    w = models(make(DATA, 0.1))[0].astype(np.float64)
    x, y = samples(DATA, 4)
    _, gradient = numpy_reference.loss_and_gradient(w, widths, x, y, l2=0.1)
    for j, unit in enumerate(np.eye(len(w)) * 1e-6):
        up, down = (
            numpy_reference.loss_and_gradient(w + s * unit, widths, x, y, l2=0.1)[0]
            for s in (1, -1)
        )
        np.testing.assert_allclose((up - down) / 2e-6, gradient[j], rtol=1e-5, atol=1e-8)


def scripted(start: np.ndarray, first: np.ndarray, curvature: np.ndarray) -> Model:
    """A model whose gradient is first + curvature (w - start), whatever the data say."""

    def penalty(w: Any) -> Any:
        away = w - start
        return jnp.sum(first * away + 0.5 * curvature * away**2)

    def apply(w: Any, x: Any, key: Any) -> Any:
        return jnp.zeros((len(x), 3)) + 0 * w[0]

    return as_model((lambda key: jnp.asarray(start), apply), name="scripted", penalty=penalty)


def test_perturbed_gradient_step_of_fedprox(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Two steps: the first, where the proximal term is still zero, leads from w_global to the
    vector's w; the second is the vector's."""
    vector = oracle("others")["fedprox_pgd"]
    start, w, gradient, expected = (
        np.array(vector[k], np.float32) for k in ("w_global", "w", "grad", "w_next")
    )
    first = (start - w) / np.float32(vector["lr"])
    model = scripted(start, first, (gradient - first) / (w - start))
    work = LocalTraining(steps=2, lr=vector["lr"], mu=vector["mu"])
    got = train(
        SimulatedWorld(DATA, model),
        start[None],
        EVERYONE[:1],
        EVERYONE[:1],
        work=work,
        stream=STREAM,
    )
    np.testing.assert_allclose(start + got.update[0], expected, rtol=1e-6)
