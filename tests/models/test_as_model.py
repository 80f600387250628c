"""Equinox modules and (init, apply) pairs as models; anything else is refused with a message."""

from __future__ import annotations

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedkin.core.errors import ModelError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import as_model
from fedkin.models.model import Model, flatten
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import train
from tests.simulation.small_federation import EVERYONE, federation

DATA = federation()
WORDS = np.array([3, 4], np.uint32)
WIDTHS: dict[str, Any] = {"in_size": 6, "out_size": 3, "width_size": 5, "depth": 1}
# Past the run-time type check, as users have it.
as_model_of_anything: Any = inspect.unwrap(as_model)


def perceptron(key: jax.Array) -> eqx.Module:
    return eqx.nn.MLP(**WIDTHS, key=key)


def with_dropout(key: jax.Array) -> eqx.Module:
    first, second = jax.random.split(key)
    parts = [eqx.nn.Linear(6, 64, key=first), eqx.nn.Dropout(0.5), eqx.nn.Linear(64, 3, key=second)]
    return eqx.nn.Sequential(parts)


def scores(model: Model, w: np.ndarray, key: jax.Array | None = None) -> np.ndarray:
    return np.asarray(model.apply(model.unflatten(jnp.asarray(w)), jnp.asarray(DATA.x[:9]), key))


def assert_trains(model: Model) -> None:
    """Two epochs lower the training loss of a client with many samples, from the outside world's
    point of view."""
    world = SimulatedWorld(DATA, model, LocalTraining(epochs=2, lr=0.01))
    start = model.initial(WORDS)[None]
    big = EVERYONE[-1:]
    got = train(world, start, big, np.array([0]), stream=Stream(0))
    assert got.arrived.all()
    assert (
        world.run(Losses(start + got.update), big).losses[0, 0]
        < world.run(Losses(start), big).losses[0, 0]
    )


def test_a_module_keeps_its_weights() -> None:
    module = eqx.nn.MLP(**WIDTHS, key=jax.random.key(8))
    model = as_model(module, name="mine")
    leaves = [leaf for leaf in jax.tree.leaves(module) if eqx.is_inexact_array(leaf)]
    expected = np.concatenate([np.ravel(leaf) for leaf in leaves])
    for words in (WORDS, WORDS + 1):
        np.testing.assert_array_equal(model.initial(words), expected)
    assert model.name == "mine" and model.spec.parameters == 6 * 5 + 5 + 5 * 3 + 3
    np.testing.assert_allclose(
        scores(model, expected), jax.vmap(module)(jnp.asarray(DATA.x[:9])), rtol=1e-5, atol=1e-6
    )
    assert_trains(model)


def test_a_module_has_its_layers_in_the_spec() -> None:
    spec = as_model(perceptron).spec
    assert list(spec.slices.values()) == [slice(0, 30), slice(30, 35), slice(35, 50), slice(50, 53)]
    assert all("weight" in name or "bias" in name for name in spec.slices)
    assert spec.head == slice(35, 53) and spec.head_bias == slice(50, 53)


def test_a_function_draws_weights_from_the_seed() -> None:
    model = as_model(perceptron)
    one = model.initial(WORDS)
    np.testing.assert_array_equal(one, model.initial(WORDS))
    assert (one != model.initial(WORDS + 1)).any()
    assert_trains(model)


def test_a_module_with_dropout() -> None:
    """Random while training, with different numbers for every sample. Without a key it is the
    module
        in inference."""
    model = as_model(with_dropout)
    w = model.initial(WORDS)
    assert model.random
    first, second = (np.asarray(leaf) for leaf in (w[: 64 * 6 + 64], w[64 * 6 + 64 :]))
    hidden = DATA.x[:9] @ first[: 64 * 6].reshape(64, 6).T + first[64 * 6 :]
    expected = hidden @ second[: 3 * 64].reshape(3, 64).T + second[3 * 64 :]
    np.testing.assert_allclose(scores(model, w), expected, rtol=1e-4, atol=1e-5)
    random = scores(model, w, jax.random.key(0))
    np.testing.assert_array_equal(random, scores(model, w, jax.random.key(0)))
    assert (random != scores(model, w)).any() and (
        random != scores(model, w, jax.random.key(1))
    ).any()
    same = np.asarray(
        model.apply(model.unflatten(jnp.asarray(w)), jnp.ones((9, 6)), jax.random.key(0))
    )
    assert len(np.unique(same, axis=0)) > 1


def test_dropout_in_the_world() -> None:
    """Training differs from round to round and repeats. Scores and gradients are computed as in
    inference."""
    world = SimulatedWorld(
        DATA, as_model(with_dropout), LocalTraining(epochs=1, batch_size=200, lr=0.1)
    )
    start = world.initial(Stream(0))[None]
    zeros = np.zeros(len(EVERYONE), np.int64)

    def update(round: int) -> np.ndarray:
        return train(world, start, EVERYONE, zeros, stream=Stream(0, round, "train")).update

    np.testing.assert_array_equal(update(1), update(1))
    # one batch holds everything, so the order of samples cannot be what makes two rounds this
    # different
    assert (np.abs(update(1) - update(2)).max(axis=1) > 1e-3).all()
    expected = -world.run(Gradients(start, zeros), EVERYONE).gradients * 0.1
    assert (np.abs(update(1) - expected).max(axis=1) > 1e-3).all()
    for operation in (
        lambda: world.run(Gradients(start, zeros), EVERYONE).gradients,
        lambda: evaluate(world, start, EVERYONE, zeros).loss,
    ):
        np.testing.assert_array_equal(operation(), operation())


def test_a_batched_module() -> None:
    class Whole(eqx.Module):
        weight: jax.Array

        def __call__(self, x: jax.Array) -> jax.Array:
            assert x.ndim == 2
            return x @ self.weight

    model = as_model(Whole(jnp.ones((6, 3))), batched=True)
    np.testing.assert_allclose(
        scores(model, np.ones(18, np.float32)), DATA.x[:9] @ np.ones((6, 3)), rtol=1e-5
    )
    assert_trains(model)


def init(key: jax.Array) -> dict[str, jax.Array]:
    return {"a": 0.1 * jax.random.normal(key, (6, 3)), "b": jnp.zeros(3)}


def apply(w: dict[str, jax.Array], x: jax.Array, key: jax.Array | None) -> jax.Array:
    return x @ w["a"] + w["b"]


def test_a_pair() -> None:
    model = as_model((init, apply))
    w = model.initial(WORDS)
    np.testing.assert_array_equal(flatten(model.unflatten(jnp.asarray(w))), w)
    assert dict(model.spec.slices) == {"a": slice(0, 18), "b": slice(18, 21)}
    assert model.spec.head == slice(0, 21) and model.spec.head_bias == slice(18, 21)
    np.testing.assert_allclose(
        scores(model, w), DATA.x[:9] @ w[:18].reshape(6, 3) + w[18:], rtol=1e-5, atol=1e-6
    )
    assert_trains(model)


def test_a_pair_without_a_head() -> None:
    """One kernel and no bias: there is nothing to call a head."""
    spec = as_model((lambda key: jnp.ones((6, 3)), lambda w, x, key: x @ w)).spec
    assert spec.head is None and spec.head_bias is None and spec.parameters == 18


def test_a_penalty_is_part_of_the_training_loss() -> None:
    heavy = as_model((init, apply), penalty=lambda w: 7.0 + 0 * w["b"][0])
    world, plain = (
        SimulatedWorld(DATA, m, LocalTraining(lr=0.1)) for m in (heavy, as_model((init, apply)))
    )
    start = heavy.initial(WORDS)[None]
    row = np.array([0])
    got, expected = (train(w, start, EVERYONE[-1:], row, stream=Stream(0)) for w in (world, plain))
    np.testing.assert_allclose(got.loss, expected.loss + 7, rtol=1e-6)
    np.testing.assert_allclose(got.update, expected.update, rtol=1e-6)


@pytest.mark.parametrize("source", [42, "mlp", None, (init,), (init, 3)])
def test_not_a_model(source: Any) -> None:
    with pytest.raises(ModelError):
        as_model_of_anything(source)


@pytest.mark.parametrize(
    "source",
    [
        lambda key: 3,
        (lambda key: {}, apply),
        (lambda key: {"a": jnp.ones(3, jnp.int32)}, apply),
        (lambda key: {"a": 1.5}, apply),
        eqx.nn.Lambda(jax.nn.relu),
    ],
)
def test_no_parameters(source: Any) -> None:
    with pytest.raises(ModelError):
        as_model(source)


@pytest.mark.parametrize(
    ("features", "classes", "said"),
    [(5, 3, "samples of shape"), (6, 4, r"expected \(1, 4\)"), (6, 2, r"\(1, 3\)")],
)
@pytest.mark.parametrize("source", [perceptron, (init, apply)])
def test_a_model_that_does_not_fit_the_data(
    source: Any, features: int, classes: int, said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        SimulatedWorld(federation(features=features, classes=classes), as_model(source))
