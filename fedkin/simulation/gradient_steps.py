"""Parts of a step of local training: terms of its gradient, the step itself, and that of a model trained beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fedkin.models.model import Model, Tree


def with_terms(
    model: Model,
    gradient: Tree,
    w: Tree,
    terms: Sequence[Array | None],
    trained: Array | None,
) -> Tree:
    """A gradient with the terms of its row; zero where nothing is trained.

    Args:
        model: the model.
        gradient, w: the gradient, and where it was taken.
        terms: correction, anchor and strength, as in ``GradientTerms``.
        trained: which parameters move; None: all.
    """
    correction, anchor, strength = terms
    if correction is not None:
        gradient = jax.tree.map(jnp.add, gradient, model.unflatten(correction))
    if anchor is not None:
        gradient = jax.tree.map(lambda g, a, b: g + strength * (a - b), gradient, w, model.unflatten(anchor))
    return gradient if trained is None else jax.tree.map(lambda g, t: g * t, gradient, model.unflatten(trained))


def stepped(model: Model, w: Tree, change: Tree, rate: Array, updated: Any) -> Tree:
    """A model after one step.

    Args:
        model, w: the model, and its parameters.
        change: what the optimiser takes away, times the rate.
        rate: learning rate.
        updated: new running statistics; None: it has none.
    """
    w = jax.tree.map(lambda a, m: a - rate * m, w, change)
    return w if updated is None else model.with_statistics(w, updated)


def begun(
    model: Model, optimizer: optax.GradientTransformation, start: Float[Array, "P"] | None
) -> tuple[Tree, Any] | None:
    """A client's own model with its optimiser's memory, before the first step; None where it has none.

    Args:
        model, optimizer: of the training.
        start: the model's numbers.
    """
    if start is None:
        return None
    v = model.unflatten(start)
    return v, optimizer.init(v)


def own_step(
    model: Model,
    optimizer: optax.GradientTransformation,
    objective: Callable,
    own: tuple[Tree, Any],
    w: Tree,
    share: Array | None,
    rate: Array,
    batch: tuple[Any, ...],
) -> tuple[Tree, Any]:
    """One step of a client's own model v on the loss of ``share v + (1 - share) w``, where w is a constant. Running
    statistics of v are then those of the mix, after the batch.

    Args:
        model, optimizer: of the training.
        objective: from parameters and a batch to its loss and new running statistics.
        own: v, and its optimiser's memory.
        w: the model that is trained beside it, before its step.
        share: of v in the mix.
        rate: learning rate.
        batch: what the objective takes.
    """
    assert share is not None
    v, memory = own
    mix = jax.tree.map(lambda a, b: share * a + (1 - share) * b, v, w)
    (_, updated), gradient = jax.value_and_grad(objective, has_aux=True)(mix, *batch)
    gradient = jax.tree.map(lambda g: share * g, gradient)  # by v
    if updated is not None:  # running statistics have no gradient
        gradient = model.with_statistics(gradient, jax.tree.map(jnp.zeros_like, gradient))
    change, memory = optimizer.update(gradient, memory, v)
    return stepped(model, v, change, rate, updated), memory


def envelope_gradient(
    model: Model,
    objective: Callable,
    steps: int,
    envelope: tuple[Array, Array],
    w: Tree,
    gradient: Tree,
    batch: tuple[Any, ...],
) -> tuple[Tree, Tree]:
    """The gradient of the Moreau envelope of a batch's loss, strength (w - theta), and theta, whose running statistics
    are w's.

    Args:
        model: of the training.
        objective: from parameters and a batch to its loss and new running statistics.
        steps: of gradient descent, which give theta.
        envelope: strength and learning rate of these steps.
        w: where the gradient is wanted.
        gradient: that of the loss at w.
        batch: what the objective takes.
    """
    strength, lr = envelope

    def trained(slope: Tree) -> Tree:
        """Without running statistics, and what else is not trained."""
        return model.with_statistics(slope, jax.tree.map(jnp.zeros_like, slope)) if model.statistics else slope

    def slope(theta: Tree) -> Tree:
        return trained(jax.grad(lambda theta: objective(theta, *batch)[0])(theta))

    def inner(_: Array, theta: Tree) -> Tree:
        return jax.tree.map(lambda a, g, b: a - lr * (g + strength * (a - b)), theta, slope(theta), w)

    first = jax.tree.map(lambda a, g: a - lr * g, w, trained(gradient))  # at w itself nothing pulls
    theta = jax.lax.fori_loop(1, steps, inner, first)
    return jax.tree.map(lambda a, b: strength * (a - b), w, theta), theta
