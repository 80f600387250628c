"""Parts of a local training step: terms of the gradient, the step itself, and the step of a
client's personal model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fedkin.core.train_call import GradientTerms, MixedModel
from fedkin.models.model import Model, Tree


def with_terms(model: Model, gradient: Tree, w: Tree, terms: GradientTerms | None) -> Tree:
    """The gradient of a row (a client with one model) plus the row's additional terms (e.g. a
    correction, as in SCAFFOLD).

    Args:
        model: the model.
        gradient: gradient of the loss.
        w: parameters at which the gradient was taken.
        terms: terms of the row, with vectors [P]; None without terms.
    """
    if terms is None:
        return gradient
    entries, tree = jax.tree.flatten(gradient)
    by_entry = terms.by_entry(lambda vector: jax.tree.leaves(model.unflatten(vector)), len(entries))
    rows = zip(by_entry, entries, jax.tree.leaves(w), strict=True)
    return jax.tree.unflatten(tree, [term.added_to(entry, at) for term, entry, at in rows])


def held(model: Model, gradient: Tree, trained: Bool[Array, "P"] | None) -> Tree:
    """A gradient that is set to zero for parameters that are not trained.

    Args:
        model: the model.
        gradient: gradient of the loss, with its terms.
        trained: which parameters are trained; None: all.
    """
    if trained is None:
        return gradient
    return jax.tree.map(lambda g, t: g * t, gradient, model.unflatten(trained))


def without_statistics(model: Model, gradient: Tree) -> Tree:
    """A gradient that is set to zero for running statistics, which gradient steps do not change."""
    return model.with_statistics(gradient, jax.tree.map(jnp.zeros_like, gradient))


def stepped(model: Model, w: Tree, change: Tree, rate: Array, updated: Any) -> Tree:
    """The parameters of a model after one gradient step.

    Args:
        model: the model.
        w: its parameters.
        change: direction from the optimiser; the rate times this direction is subtracted.
        rate: learning rate.
        updated: new running statistics; None if the model has none.
    """
    w = jax.tree.map(lambda a, m: a - rate * m, w, change)
    return w if updated is None else model.with_statistics(w, updated)


def begun(
    model: Model,
    optimizer: Any,
    mixed: MixedModel | None,
) -> tuple[Tree, Any] | None:
    """A client's personal model and its optimiser state before the first step.

    Both are returned as a pair; None if the client has no personal model.

    Args:
        model: the model in training.
        optimizer: the training's optimiser.
        mixed: the client's personal model and its share in the mix; None without one.
    """
    if mixed is None:
        return None
    v = model.unflatten(mixed.start)
    return v, optimizer.init(v)


def own_step(
    model: Model,
    optimizer: Any,
    objective: Callable,
    own: tuple[Tree, Any],
    w: Tree,
    share: Array | None,
    rate: Array,
    batch: tuple[Any, ...],
) -> tuple[Tree, Any]:
    """One step of a client's personal model v on the loss of ``share v + (1 - share) w``.

    The step holds w constant. The running statistics of v become the mix's statistics after the
    batch.

    Args:
        model: the model in training.
        optimizer: the training's optimiser.
        objective: maps parameters and a batch to the loss and new running statistics.
        own: v and its optimiser state.
        w: the model that is trained together with v, before the step of w.
        share: weight of v in the mix.
        rate: learning rate.
        batch: the objective's arguments after the parameters.
    """
    assert share is not None
    v, memory = own
    mix = jax.tree.map(lambda a, b: share * a + (1 - share) * b, v, w)
    (_, updated), gradient = jax.value_and_grad(objective, has_aux=True)(mix, *batch)
    # The chain rule for v, which has this share in the mix.
    gradient = jax.tree.map(lambda g: share * g, gradient)
    if updated is not None:
        gradient = without_statistics(model, gradient)
    change, memory = optimizer.update(gradient, memory, v)
    v = stepped(model=model, w=v, change=change, rate=rate, updated=updated)
    return v, memory


def envelope_gradient(
    model: Model,
    objective: Callable,
    steps: int,
    envelope: tuple[Array, Array],
    w: Tree,
    gradient: Tree,
    batch: tuple[Any, ...],
) -> tuple[Tree, Tree]:
    """The gradient of the Moreau envelope of a batch's loss, and the parameters theta.

    The gradient is strength (w - theta). Theta keeps the running statistics of w, and minimises the
    batch's loss plus strength/2 |theta - w|^2.

    Source: Dinh et al., Personalized Federated Learning with Moreau Envelopes (NeurIPS 2020).

    Args:
        model: the model in training.
        objective: maps parameters and a batch to the loss and new running statistics.
        steps: number of gradient-descent steps that approximate theta.
        envelope: strength, and learning rate of the steps to theta.
        w: parameters at which the gradient is taken.
        gradient: gradient of the loss at w.
        batch: the objective's arguments after the parameters.
    """
    strength, lr = envelope

    def trained(gradient: Tree) -> Tree:
        """The gradient, set to zero for running statistics."""
        return without_statistics(model, gradient) if model.statistics else gradient

    def loss(theta: Tree) -> Array:
        return objective(theta, *batch)[0]

    def inner_step(_: Array, theta: Tree) -> Tree:
        gradient = trained(jax.grad(loss)(theta))
        return jax.tree.map(lambda a, g, b: a - lr * (g + strength * (a - b)), theta, gradient, w)

    # The first step starts at w. There the proximal term has no gradient, so it is left out.
    first = jax.tree.map(lambda a, g: a - lr * g, w, trained(gradient))
    theta = jax.lax.fori_loop(1, steps, inner_step, first)
    return jax.tree.map(lambda a, b: strength * (a - b), w, theta), theta
