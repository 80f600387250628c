"""Compiled client computations: local training, full gradients, scores.

On a CPU clients run one after another (``lanes = 1``), each for its own number of steps: its
weights stay in the cache, and no client waits for a larger one. On an accelerator several run at a
time (``lanes``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from fedkin.core.workers import LocalUpdates
from fedkin.models.model import Model, Tree, flatten
from fedkin.simulation.jax.gradient_steps import (
    begun,
    envelope_gradient,
    held,
    own_step,
    stepped,
    with_terms,
    without_statistics,
)
from fedkin.simulation.jax.mixed_precision import in_bfloat16
from fedkin.simulation.jax.padding import Plan, PlannedRows
from fedkin.simulation.jax.recipe import Recipe, direction
from fedkin.simulation.jax.training_losses import batch_loss, sample_losses

# A device is one core: a program with parallel matrix products would take the cores of the other
# devices. It also makes the bits independent of the number of devices.
_ONE_CORE = {"xla_cpu_multi_thread_eigen": False}


class Shared(NamedTuple):
    """Input of a training program that all rows share."""

    models: Any  # [K P]
    lr: Any
    mu: Any
    trained: Any = None  # which parameters move [P]; None: all
    envelope: Any = None  # strength and inner learning rate
    samples: Any = None  # all of the data set, [M ...] and [M], where the device keeps them


class SampleBlocks(NamedTuple):
    """Input of a scoring program: blocks of samples, each of one model."""

    model_index: Any  # model of each block, [D b]; of detectors [D b C]
    x: Any  # [D b S ...]
    y: Any  # [D b S]


def rows_of(x: Any, indices: Int[Array, "B"]) -> Array:
    """x[indices], copied row by row on a CPU, where the compiler's own gather copies number by
    number."""
    if jax.default_backend() != "cpu":
        return x[indices]
    return jax.lax.map(lambda row: jax.lax.dynamic_index_in_dim(x, row, keepdims=False), indices)


@partial(jax.jit, static_argnames=("model", "recipe", "mesh"), compiler_options=_ONE_CORE)
def train(model: Model, recipe: Recipe, mesh: Mesh, shared: Shared, work: Plan) -> LocalUpdates:
    """Local training of every row.

    Args:
        model, recipe: the model; optimiser and other static options.
        mesh: D devices, each of which trains its own rows.
        shared: models, learning rate and mu.
        work: the plan, with a leading axis of devices.

    Returns:
        Updates [D n P] and losses [D n]; where rows are groups, G models of one client that train
        on the same batches, [D n G P] and [D n G].
    """
    return on_each_device(partial(_train, model, recipe), mesh)(shared, work)


def on_each_device(compute: Callable, mesh: Mesh) -> Callable:
    """The function ``compute(shared, own)`` on every device, with its own slice of the leading
    axis."""

    def one(shared: Any, own: Any) -> Any:
        return jax.tree.map(lambda a: a[None], compute(shared, jax.tree.map(lambda a: a[0], own)))

    split = PartitionSpec("devices")
    whole = PartitionSpec()
    return jax.shard_map(one, mesh=mesh, in_specs=(whole, split), out_specs=split, check_vma=False)


def _train(model: Model, recipe: Recipe, shared: Shared, work: Plan) -> LocalUpdates:
    if shared.samples is not None:
        x, y = shared.samples
        work = work._replace(x=x, y=y)
    computed = model if recipe.precision is None else in_bfloat16(model)
    optimizer = direction(recipe)
    objective = partial(batch_loss, computed, recipe.label_smoothing)
    of_envelope = partial(envelope_gradient, model, objective, recipe.inner_steps, shared.envelope)
    trained = shared.trained

    def one(row: PlannedRows, member: Array | None) -> LocalUpdates:
        """Training of one model of a row; ``member`` is its number in a group."""
        received = shared.models[row.model_index]
        start = model.unflatten(received)
        base_key = jax.random.wrap_key_data(row.words) if model.random else None

        def step(
            s: Array, carry: tuple[Tree, Any, Any, Array, Array]
        ) -> tuple[Tree, Any, Any, Array, Array]:
            w, memory, own, last_sum, first_sum = carry
            at = row.first + s
            count = work.steps.valid[at]
            key = None if base_key is None else jax.random.fold_in(base_key, s)
            batch = _batch(work, row, at, key, member)
            (loss, updated), gradient = jax.value_and_grad(objective, has_aux=True)(w, *batch)
            if recipe.inner_steps:  # pFedMe
                gradient, theta = of_envelope(w, gradient, batch)
            if recipe.proximal:  # FedProx: the gradient of mu/2 |w - start|^2
                gradient = jax.tree.map(lambda g, a, b: g + shared.mu * (a - b), gradient, w, start)
            gradient = held(model, with_terms(model, gradient, w, row.terms), trained)
            if recipe.clip_norm is not None and updated is not None:
                gradient = without_statistics(model, gradient)
            change, memory = optimizer.update(gradient, memory, w)
            rate = shared.lr if work.steps.rates is None else work.steps.rates[at]
            if recipe.inner_steps:
                own = theta if updated is None else model.with_statistics(theta, updated), None
            elif row.mixed is not None:
                own = own_step(model, optimizer, objective, own, w, row.mixed.share, rate, batch)
            after = stepped(model, w, change, rate, updated)
            w = (
                after
                if trained is None
                else jax.tree.map(jnp.where, model.unflatten(trained), after, w)
            )
            summed = jnp.stack([loss * count, count])
            last_sum = last_sum + jnp.where(s >= row.num_steps - row.per_epoch, summed, 0)
            return w, memory, own, last_sum, first_sum + jnp.where(s < row.per_epoch, summed, 0)

        own = (start, None) if recipe.inner_steps else begun(model, optimizer, row.mixed)
        begin = (start, optimizer.init(start), own, jnp.zeros(2), jnp.zeros(2))
        w, _, own, last_sum, first_sum = jax.lax.fori_loop(0, row.num_steps, step, begin)
        at_start = None
        if recipe.gradient:
            first_epoch = jnp.minimum(row.per_epoch, row.num_steps)
            at_start = _full_gradient(model, start, work, row.first, first_epoch)
        own_start = received if row.mixed is None else row.mixed.start
        return LocalUpdates(
            update=flatten(w) - received,
            loss=last_sum[0] / jnp.maximum(last_sum[1], 1),
            first_loss=first_sum[0] / jnp.maximum(first_sum[1], 1),
            gradient=at_start,
            own=None if own is None else flatten(own[0]) - own_start,
        )

    client = partial(_each_model, one, recipe.detects)
    return jax.lax.map(client, work.rows, batch_size=recipe.lanes if recipe.lanes > 1 else None)


def _each_model(
    one: Callable[[PlannedRows, Any], LocalUpdates],
    detects: bool,
    row: PlannedRows,
) -> LocalUpdates:
    """Training of a row: of its one model, or side by side of all models of its group."""
    if not row.model_index.ndim:
        return one(row._replace(positive=None), None)

    def of_member(model_index: Array, positive: Any, member: Array) -> LocalUpdates:
        positive = positive if detects else None
        return one(row._replace(model_index=model_index, positive=positive), member)

    return jax.vmap(of_member)(row.model_index, row.positive, jnp.arange(len(row.model_index)))


def _batch(
    work: Plan,
    row: PlannedRows,
    at: Array,
    key: Array | None,
    member: Array | None,
) -> tuple[Any, ...]:
    """The batch of a step, as ``batch_loss`` takes it.

    Args:
        work: the plan.
        row: whose step it is.
        at: number of the step among those of all rows.
        key: for dropout; None without.
        member: which of a client's models is trained on it; None where it has one.
    """
    indices = work.steps.batches[at]
    mask = (jnp.arange(len(indices)) < work.steps.valid[at]).astype(jnp.float32)
    x = rows_of(work.x, indices)
    y = work.y[indices]
    y = y if row.positive is None else y == row.positive
    weights = work.steps.weights
    if weights is not None:
        weights = weights[at] if member is None else weights[at, member]
    return x, y, mask, key, row.class_weights, weights


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def gradients(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], work: Plan
) -> Float[Array, "D n P"]:
    """Gradient of the mean training loss over all samples of every row, in inference mode and with
    the penalty.

    Args:
        model: the model.
        mesh: D devices.
        models: parameters of K models, which ``work.rows.model_index`` refers to.
        work: the plan, its batches holding every sample of a row once.
    """
    return on_each_device(partial(_gradients, model), mesh)(models, work)


def _gradients(model: Model, models: Float[Array, "K P"], work: Plan) -> Float[Array, "n P"]:
    def client(row: PlannedRows) -> Array:
        w = model.unflatten(models[row.model_index])
        return _full_gradient(model, w, work, row.first, row.num_steps)

    return jax.lax.map(client, work.rows)


def _full_gradient(
    model: Model, w: Tree, work: Plan, first: Array, steps: Array
) -> Float[Array, "P"]:
    """Gradient of the mean loss over the samples of some consecutive batches, which hold every
    sample once."""

    def summed(w: Tree, indices: Array, mask: Array) -> Array:
        return jnp.sum(
            sample_losses(model.apply(w, rows_of(work.x, indices), None), work.y[indices]) * mask
        )

    def step(s: Array, carry: tuple[Tree, Array]) -> tuple[Tree, Array]:
        total, examples = carry
        indices = work.steps.batches[first + s]
        count = work.steps.valid[first + s]
        mask = (jnp.arange(len(indices)) < count).astype(jnp.float32)
        return jax.tree.map(jnp.add, total, jax.grad(summed)(w, indices, mask)), examples + count

    zero = jax.tree.map(jnp.zeros_like, w)
    begin = (zero, jnp.zeros((), work.steps.valid.dtype))
    total, examples = jax.lax.fori_loop(0, steps, step, begin)
    if model.statistics:  # running statistics have no gradient
        total = model.with_statistics(total, zero)
    gradient = flatten(total) / jnp.maximum(examples, 1)
    return gradient if model.penalty is None else gradient + flatten(jax.grad(model.penalty)(w))


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def score(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: SampleBlocks
) -> tuple[Bool[Array, "D b S"], Float[Array, "D b S"]]:
    """Whether each sample is classified correctly, and its loss.

    Args:
        model, mesh, models: the model, D devices, and the parameters that the blocks refer to.
        blocks: the samples; block i of a device is scored by model ``model_index[i]``.
    """

    def block(args: SampleBlocks, models: Array) -> tuple[Array, Array]:
        k, xs, ys = args
        scores = (detector_scores if model.spec.detects else model_scores)(model, models, k, xs)
        return jnp.argmax(scores, axis=-1) == ys, sample_losses(scores, ys)

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(
        models, blocks
    )


def model_scores(
    model: Model, models: Float[Array, "K P"], k: Int[Array, ""], x: Array
) -> Float[Array, "S C"]:
    """Scores of samples by one model.

    Args:
        model, models, k: the model, parameters of several, and which of them.
        x: samples [S ...].
    """
    return model.apply(model.unflatten(models[k]), x, None)


def detector_scores(
    model: Model, models: Float[Array, "K P"], model_index: Int[Array, "C"], x: Array
) -> Float[Array, "S C"]:
    """Scores of samples by one detector of each class; a class without one scores lowest.

    Args:
        model, models: the detector, and parameters of several.
        model_index: which of them detects each class; -1 for none.
        x: samples [S ...].
    """
    scores = jax.vmap(lambda k: model_scores(model, models, k, x)[:, 0], out_axes=1)(model_index)
    return jnp.where(model_index < 0, -jnp.inf, scores)


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def raw_scores(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: SampleBlocks
) -> Float[Array, "D b S C"]:
    """The scores of each sample; of a detector, its one.

    Args:
        model, mesh, models, blocks: as for ``score``.
    """

    def block(args: SampleBlocks, models: Array) -> Array:
        return model_scores(model, models, *args[:2])

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(
        models, blocks
    )


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=_ONE_CORE)
def predict(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], blocks: SampleBlocks
) -> Int[Array, "D b S"]:
    """The predicted class of each sample.

    Args:
        model, mesh, models, blocks: as for ``score``.
    """

    def block(args: tuple[Array, Array, Array], models: Array) -> Array:
        return jnp.argmax(model_scores(model, models, *args[:2]), axis=-1)

    return on_each_device(lambda m, own: jax.lax.map(partial(block, models=m), own), mesh)(
        models, blocks
    )
