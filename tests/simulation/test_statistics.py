"""A model with running statistics: the training pass sets them, and no gradient ever touches them.

The model is logistic regression on centred features. In training the centre is the mean of the
batch, of which the running mean takes a tenth; in inference it is the running mean. NumPy does the
same by hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.models import as_model
from fedkin.models.model import Tree
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.train import TrainingReply, train
from tests.simulation import numpy_reference
from tests.simulation.small_federation import EVERYONE, federation, models, samples

DATA = federation()
STREAM = Stream(3, 2, "run/train")
WHICH = np.array([0, 1, 1, 0, 1, 0, 1])
# A batch is all that a client has, and padding.
WORK = LocalTraining(epochs=3, batch_size=200, lr=0.1)
# Leaves in the order of their names: mean [6], weight [3 6], zero [3].
MEAN = slice(0, 6)
REST = slice(6, 27)
KERNEL = (6, 3)


def scored(tree: Tree, x: Array, centre: Array) -> Array:
    return (x - centre) @ tree["weight"].T + tree["zero"]


def fit(tree: Tree, x: Array, mask: Array, key: Array | None) -> tuple[Array, Tree]:
    centre = (mask @ x) / jnp.maximum(mask.sum(), 1)
    return scored(tree, x, centre), {**tree, "mean": 0.9 * tree["mean"] + 0.1 * centre}


def init(key: Array) -> Tree:
    return {"mean": jnp.zeros(6), "weight": jnp.ones((3, 6)), "zero": jnp.zeros(3)}


PLAIN = as_model((init, lambda tree, x, key: scored(tree, x, tree["mean"])), name="centred")
MODEL = replace(PLAIN, fit=fit, statistics=(True, False, False))


def world(**options: Any) -> SimulatedWorld:
    return SimulatedWorld(DATA, MODEL, WORK, **options)


def test_the_world_says_which_they_are() -> None:
    """For methods that step models themselves."""
    assert world().spec.untrained == (MEAN,)
    assert SimulatedWorld(DATA, PLAIN, WORK).spec.untrained == ()


def trained(work: LocalTraining = WORK, **options: Any) -> TrainingReply:
    return train(world(), models(MODEL), EVERYONE, WHICH, work=work, stream=STREAM, **options)


def by_hand(start: np.ndarray, client: int, work: LocalTraining) -> np.ndarray:
    """The update: statistics as the pass leaves them, all else by the optimiser's steps."""
    x, y = samples(DATA, client)
    x = x.astype(np.float64)
    start = start.astype(np.float64)
    mean = start[MEAN]
    w = start[REST]
    optimizer = numpy_reference.Optimizer(work, np.zeros(21), np.zeros(21))
    for _ in range(int(work.epochs)):
        _, gradient = numpy_reference.loss_and_gradient(w, KERNEL, x - x.mean(axis=0), y)
        w = w + optimizer.move(gradient + work.mu * (w - start[REST]))
        mean = 0.9 * mean + 0.1 * x.mean(axis=0)
    return np.concatenate([mean, w]) - start


@pytest.mark.parametrize(
    "work",
    [
        WORK,
        replace(WORK, momentum=0.5),
        replace(WORK, mu=0.7),
        replace(WORK, optimizer="adam", lr=0.01),
    ],
    ids=["sgd", "momentum", "proximal", "adam"],
)
def test_training_by_hand(work: LocalTraining) -> None:
    got = trained(work)
    for row, client in enumerate(EVERYONE.tolist()):
        expected = by_hand(models(MODEL)[WHICH[row]], client, work)
        np.testing.assert_allclose(got.update[row], expected, rtol=2e-4, atol=3e-6)


@pytest.mark.parametrize("mu", [0.0, 100.0])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_no_step_is_taken_on_statistics(optimizer: str, mu: float) -> None:
    """The samples alone decide them, with any step size and proximal term."""
    few = [trained(replace(WORK, optimizer=optimizer, mu=mu, lr=lr)).update for lr in (1e-6, 1e-3)]
    np.testing.assert_array_equal(few[0][:, MEAN], few[1][:, MEAN])
    assert (few[0][:, REST] != few[1][:, REST]).any(axis=1).all()


def test_only_samples_that_count_move_the_statistics() -> None:
    """One client has a single sample in batches of 200, another 130: the mean is over those alone,
    once an epoch."""
    got = trained(replace(WORK, epochs=1))
    for row, client in enumerate(EVERYONE.tolist()):
        start = models(MODEL)[WHICH[row], MEAN]
        centre = samples(DATA, client)[0].mean(axis=0)
        np.testing.assert_allclose(
            got.update[row, MEAN], 0.1 * (centre - start), rtol=1e-4, atol=1e-6
        )


def test_scores_are_taken_at_the_running_mean() -> None:
    start = models(MODEL)
    got = evaluate(world(), start, EVERYONE, WHICH)
    for row, client in enumerate(EVERYONE.tolist()):
        x, y = samples(DATA, client, "test")
        w = start[WHICH[row]]
        expected = numpy_reference.cross_entropy(w[REST], KERNEL, x - w[MEAN], y)
        np.testing.assert_allclose(got.loss[row], expected, rtol=1e-5)
        assert got.correct[row] == numpy_reference.correct(w[REST], KERNEL, x - w[MEAN], y)


@pytest.mark.parametrize("riding", [False, True], ids=["asked for", "with training"])
def test_full_gradients_of_statistics_are_zero(riding: bool) -> None:
    """Though the scores depend on them; all other numbers are by hand, at the running mean."""
    start = models(MODEL)
    got = (
        trained(gradient=True).gradient
        if riding
        else world().run(Gradients(start, WHICH), EVERYONE).gradients
    )
    assert got is not None and not got[:, MEAN].any()
    for row, client in enumerate(EVERYONE.tolist()):
        x, y = samples(DATA, client)
        w = start[WHICH[row]]
        _, expected = numpy_reference.loss_and_gradient(w[REST], KERNEL, x - w[MEAN], y)
        np.testing.assert_allclose(got[row, REST], expected, rtol=1e-4, atol=2e-6)


def test_fedavg_averages_them_with_the_parameters() -> None:
    """By training samples: after one epoch the mean is 0.9 of the old and a tenth of the mean over
    all samples."""
    w = world()
    w.work = replace(WORK, epochs=1)
    state = FedAvg().init(w, Stream(3, 0, "init"))
    after = FedAvg().round(w, state, EVERYONE, Stream(3, 1, "method"))
    everything = np.concatenate([samples(DATA, c)[0] for c in EVERYONE.tolist()]).astype(np.float64)
    np.testing.assert_allclose(
        after.models[0, MEAN], 0.1 * everything.mean(axis=0), rtol=1e-5, atol=1e-6
    )
    size = DATA.train.sizes
    updates = np.stack([by_hand(state.models[0], c, w.work) for c in EVERYONE.tolist()])
    np.testing.assert_allclose(
        after.models[0] - state.models[0], size @ updates / size.sum(), rtol=1e-3, atol=2e-6
    )
