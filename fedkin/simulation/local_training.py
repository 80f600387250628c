"""What a client computes, compiled: local training, full gradients, scores.

Clients run one after another (``lanes = 1``), each for as many steps as it has: its weights stay in the cache, and a
large client keeps nobody waiting. On an accelerator several run side by side (``lanes``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Shaped

from fedkin.models.model import Model, Tree, flatten
from fedkin.simulation.padding import Plan

# A device is one core: a program that shares its matrix products out would take the cores of the others. And the same
# bits come out, however many devices there are.
_ONE_CORE = {"xla_cpu_multi_thread_eigen": False}


class Recipe(NamedTuple):
    """What is compiled into a training program (numbers that vary are passed to it)."""

    optimizer: str
    momentum: float
    proximal: bool
    lanes: int
    gradient: bool = False  # also that of the full loss at the start, from the batches of the first epoch
    detects: bool = False  # a row is several detectors of one client, which train on the same batches


def sample_losses(scores: Float[Array, "B C"], y: Int[Array, "B"]) -> Float[Array, "B"]:
    """Softmax cross entropy of each sample."""
    return jax.nn.logsumexp(scores, axis=-1) - jnp.take_along_axis(scores, y[:, None], axis=-1)[:, 0]


def rows_of(x: Any, taken: Int[Array, "B"]) -> Array:
    """x[taken], row by row on a CPU, where the compiler's own gather goes number by number."""
    if jax.default_backend() != "cpu":
        return x[taken]
    return jax.lax.map(lambda row: jax.lax.dynamic_index_in_dim(x, row, keepdims=False), taken)


def detection_losses(scores: Float[Array, "B 1"], found: Bool[Array, "B"]) -> Float[Array, "B"]:
    """Binary cross entropy of each sample; ``found`` says whether it is of the detector's class."""
    return jax.nn.softplus(scores[:, 0]) - jnp.where(found, scores[:, 0], 0)


def batch_loss(
    model: Model, w: Tree, x: Array, y: Shaped[Array, "B"], mask: Float[Array, "B"], key: Array | None
) -> tuple[Float[Array, ""], Tree | None]:
    """Mean loss over the samples that count, plus the model's penalty; and parameters with moved running statistics,
    where there are any. ``y`` of a detector is whether a sample is of its class."""
    scores, moved = (model.apply(w, x, key), None) if model.fit is None else model.fit(w, x, mask, key)
    losses = (detection_losses if model.spec.detects else sample_losses)(scores, y)
    loss = jnp.sum(losses * mask) / jnp.maximum(jnp.sum(mask), 1)
    return (loss if model.penalty is None else loss + model.penalty(w)), moved


def direction(recipe: Recipe) -> optax.GradientTransformation:
    """The optimiser without its step size."""
    if recipe.optimizer == "adam":
        return optax.scale_by_adam()
    return optax.trace(recipe.momentum) if recipe.momentum else optax.identity()


@partial(jax.jit, static_argnames=("model", "recipe", "mesh"), compiler_options=_ONE_CORE)
def train(
    model: Model, recipe: Recipe, mesh: Mesh, shared: tuple[Array, Array, Array], work: Plan
) -> tuple[Float[Array, "D n ..."], Float[Array, "D n ..."], Float[Array, "D n ..."], Float[Array, "D n P"] | None]:
    """Local training of every row: updates [D n P], mean losses [D n] over the last and the first epoch, and gradients
    if asked for; of detectors [D n G P] and [D n G], G of each client.

    ``shared`` is models [K P], lr, mu; the plan and the results have a leading axis of D devices, each of which works
    through its own rows.
    """
    return on_each_device(partial(_train, model, recipe), mesh)(shared, work)


def on_each_device(compute: Callable, mesh: Mesh) -> Callable:
    """``compute(shared, own)`` on every device's own slice of the leading axis."""

    def one(shared: Any, own: Any) -> Any:
        return jax.tree.map(lambda a: a[None], compute(shared, jax.tree.map(lambda a: a[0], own)))

    split, whole = PartitionSpec("devices"), PartitionSpec()
    return jax.shard_map(one, mesh=mesh, in_specs=(whole, split), out_specs=split, check_vma=False)


def _train(
    model: Model, recipe: Recipe, shared: tuple[Array, Array, Array], work: Plan
) -> tuple[Float[Array, "n ..."], Float[Array, "n ..."], Float[Array, "n ..."], Float[Array, "n P"] | None]:
    models, lr, mu = shared
    optimizer = direction(recipe)

    def one(
        model_index: Array, positive: Array | None, first: Array, steps: Array, per_epoch: Array, words: Array
    ) -> tuple[Array, Array, Array, Array | None]:
        start = model.unflatten(models[model_index])
        base_key = jax.random.wrap_key_data(words) if model.random else None

        def step(s: Array, carry: tuple[Tree, Any, Array, Array]) -> tuple[Tree, Any, Array, Array]:
            w, memory, last_sum, first_sum = carry
            taken, count = work.batches[first + s], work.valid[first + s]
            mask = (jnp.arange(len(taken)) < count).astype(jnp.float32)
            key = None if base_key is None else jax.random.fold_in(base_key, s)
            x, y = rows_of(work.x, taken), work.y[taken]
            y = y if positive is None else y == positive
            (loss, moved), gradient = jax.value_and_grad(partial(batch_loss, model), has_aux=True)(w, x, y, mask, key)
            if recipe.proximal:  # FedProx: the gradient of mu/2 |w - start|^2
                gradient = jax.tree.map(lambda g, a, b: g + mu * (a - b), gradient, w, start)
            move, memory = optimizer.update(gradient, memory, w)
            w = jax.tree.map(lambda a, m: a - lr * m, w, move)
            w = w if moved is None else model.with_statistics(w, moved)
            share = jnp.stack([loss * count, count])
            last_sum = last_sum + jnp.where(s >= steps - per_epoch, share, 0)
            return w, memory, last_sum, first_sum + jnp.where(s < per_epoch, share, 0)

        zero = jnp.zeros(2)
        w, _, last_sum, first_sum = jax.lax.fori_loop(0, steps, step, (start, optimizer.init(start), zero, zero))
        update = flatten(w) - models[model_index]
        slope = _full_gradient(model, start, work, first, jnp.minimum(per_epoch, steps)) if recipe.gradient else None
        return update, last_sum[0] / jnp.maximum(last_sum[1], 1), first_sum[0] / jnp.maximum(first_sum[1], 1), slope

    def client(row: tuple[Array, ...]) -> tuple[Array, Array, Array, Array | None]:
        model_index, positive, *rest = row
        if not recipe.detects:
            return one(model_index, None, *rest)
        return jax.vmap(lambda k, c: one(k, c, *rest))(model_index, positive)

    rows = (work.model_index, work.positive, work.first, work.steps, work.per_epoch, work.words)
    return jax.lax.map(client, rows, batch_size=recipe.lanes if recipe.lanes > 1 else None)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def gradients(model: Model, mesh: Mesh, models: Float[Array, "K P"], work: Plan) -> Float[Array, "D n P"]:
    """Gradient of the mean training loss over all samples of every row (in inference mode, penalty included)."""
    return on_each_device(partial(_gradients, model), mesh)(models, work)


def _gradients(model: Model, models: Float[Array, "K P"], work: Plan) -> Float[Array, "n P"]:
    def client(row: tuple[Array, ...]) -> Array:
        model_index, first, steps = row
        return _full_gradient(model, model.unflatten(models[model_index]), work, first, steps)

    return jax.lax.map(client, (work.model_index, work.first, work.steps))


def _full_gradient(model: Model, w: Tree, work: Plan, first: Array, steps: Array) -> Float[Array, "P"]:
    """Gradient of the mean loss over the samples of some consecutive batches, which hold every sample once."""

    def summed(w: Tree, taken: Array, mask: Array) -> Array:
        return jnp.sum(sample_losses(model.apply(w, rows_of(work.x, taken), None), work.y[taken]) * mask)

    def step(s: Array, carry: tuple[Tree, Array]) -> tuple[Tree, Array]:
        total, seen = carry
        taken, count = work.batches[first + s], work.valid[first + s]
        mask = (jnp.arange(len(taken)) < count).astype(jnp.float32)
        return jax.tree.map(jnp.add, total, jax.grad(summed)(w, taken, mask)), seen + count

    zero = jax.tree.map(jnp.zeros_like, w)
    total, seen = jax.lax.fori_loop(0, steps, step, (zero, jnp.zeros((), work.valid.dtype)))
    if model.statistics:  # they follow the samples, not a gradient
        total = model.with_statistics(total, zero)
    gradient = flatten(total) / jnp.maximum(seen, 1)
    return gradient if model.penalty is None else gradient + flatten(jax.grad(model.penalty)(w))


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def score(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: tuple[Array, Array, Array]
) -> tuple[Bool[Array, "D b S"], Float[Array, "D b S"]]:
    """Whether each sample is classified correctly, and its loss.

    ``blocks`` is which [D b], x [D b S ...], y [D b S]: block i of a device is scored by model ``which[i]``; or which
    [D b C], where models are detectors.
    """

    def block(args: tuple[Array, Array, Array], models: Array) -> tuple[Array, Array]:
        k, xs, ys = args
        scores = (together if model.spec.detects else alone)(model, models, k, xs)
        return jnp.argmax(scores, axis=-1) == ys, sample_losses(scores, ys)

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(models, blocks)


def alone(model: Model, models: Float[Array, "K P"], k: Int[Array, ""], x: Array) -> Float[Array, "S C"]:
    """Scores by model k."""
    return model.apply(model.unflatten(models[k]), x, None)


def together(model: Model, models: Float[Array, "K P"], model_index: Int[Array, "C"], x: Array) -> Float[Array, "S C"]:
    """Scores of the detectors of every class; a class without one (-1) scores lowest."""
    scores = jax.vmap(lambda k: alone(model, models, k, x)[:, 0], out_axes=1)(model_index)
    return jnp.where(model_index < 0, -jnp.inf, scores)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def raw_scores(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: tuple[Array, Array, Array]
) -> Float[Array, "D b S 1"]:
    """The score that a detector gives each sample; ``blocks`` as for ``score``."""

    def block(args: tuple[Array, Array, Array], models: Array) -> Array:
        return alone(model, models, *args[:2])

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(models, blocks)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def predict(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: tuple[Array, Array, Array]
) -> Int[Array, "D b S"]:
    """The class that each sample of each block is given; ``blocks`` as for ``score``."""

    def block(args: tuple[Array, Array, Array], models: Array) -> Array:
        return jnp.argmax(alone(model, models, *args[:2]), axis=-1)

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(models, blocks)
