"""Compiled computations of clients: local training and full gradients.

On a CPU one client runs after another (``lanes = 1``), so that its weights stay in the cache. On an
accelerator ``lanes`` clients run in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from fedkin.core.engine_protocols import LocalUpdates
from fedkin.models.model import Model, Tree, flatten
from fedkin.simulation.jax.batch_plan import BatchPlan, PlannedRows
from fedkin.simulation.jax.gradient_steps import (
    begun,
    envelope_gradient,
    held,
    own_step,
    stepped,
    with_terms,
    without_statistics,
)
from fedkin.simulation.jax.mixed_precision import in_bfloat16, rounded
from fedkin.simulation.jax.train_options import Recipe, direction
from fedkin.simulation.jax.training_losses import batch_loss, sample_losses, sample_weights

# A device is one core: parallel matrix products would use the cores of other devices, and the bits
# would depend on the number of devices.
ONE_CORE = {"xla_cpu_multi_thread_eigen": False}


class Shared(NamedTuple):
    """Inputs of a training program that all rows (clients with their models) share."""

    models: Any  # [K P]
    lr: Any  # learning rate of the round
    mu: Any  # factor of FedProx's term
    trained: Any = None  # [P] which parameters are trained; None: all
    envelope: Any = None  # strength and inner learning rate
    samples: Any = None  # all samples of the data set, [M ...] and [M], if the device keeps them
    frozen: Any = None  # arrays of the model that are not trained, equal for all rows


class SampleBlocks(NamedTuple):
    """Inputs of a scoring program: blocks of samples, each block scored by one model."""

    model_index: Any  # model of each block, [D b]; for detectors [D b C]
    x: Any  # [D b S ...]
    y: Any  # [D b S]


def rows_of(x: Any, indices: Int[Array, "B"]) -> Array:
    """x[indices]. On a CPU whole rows are copied, because XLA's gather copies single numbers."""
    if jax.default_backend() != "cpu":
        return x[indices]
    return jax.lax.map(lambda row: jax.lax.dynamic_index_in_dim(x, row, keepdims=False), indices)


@partial(jax.jit, static_argnames=("model", "recipe", "mesh"), compiler_options=ONE_CORE)
def train(
    model: Model, recipe: Recipe, mesh: Mesh, shared: Shared, work: BatchPlan
) -> LocalUpdates:
    """Local training of every row (a client with its model) on the devices.

    Args:
        model: the model.
        recipe: optimiser and other static options.
        mesh: D devices, each of which trains its rows.
        shared: models, learning rate and mu.
        work: the plan of the rows and their batches, with a leading axis of devices.

    Returns:
        Updates [D n P] and losses [D n]. A row can have a group of G models of one client, which
        train on the same batches; then updates are [D n G P] and losses [D n G].
    """
    return on_each_device(partial(_train, model, recipe), mesh)(shared, work)


def on_each_device(compute: Callable, mesh: Mesh) -> Callable:
    """A function that runs ``compute(shared, slices)`` on every device.

    Args:
        compute: takes arrays that all devices share, and the device's slices of stacked arrays.
        mesh: D devices, the leading axis of the stacked arrays.
    """

    def on_device(shared: Any, stacked: Any) -> Any:
        slices = jax.tree.map(lambda array: array[0], stacked)
        results = compute(shared, slices)
        return jax.tree.map(lambda array: array[None], results)

    split = PartitionSpec("devices")
    whole = PartitionSpec()
    return jax.shard_map(
        on_device, mesh=mesh, in_specs=(whole, split), out_specs=split, check_vma=False
    )


def _train(model: Model, recipe: Recipe, shared: Shared, work: BatchPlan) -> LocalUpdates:
    """Local training of the rows (clients with their models) of one device."""
    if shared.samples is not None:
        x, y = shared.samples
        work = work._replace(x=x, y=y)
    model = model.bound(shared.frozen)
    computed = model
    if recipe.precision is not None:
        computed = in_bfloat16(model.bound(rounded(shared.frozen)))
    training = _Training(
        model=model,
        recipe=recipe,
        shared=shared,
        work=work,
        optimizer=direction(recipe),
        objective=partial(batch_loss, computed, recipe.label_smoothing),
    )
    client = partial(_each_model, training.of_model, recipe.detects)
    return jax.lax.map(client, work.rows, batch_size=recipe.lanes if recipe.lanes > 1 else None)


class _Begun(NamedTuple):
    """The constants of one model's training: its row (client and steps), start and random key."""

    row: PlannedRows
    member: Array | None  # index of the model in its group; None if the row has one model
    start: Tree
    key: Any  # random key for dropout; None without dropout


class _Carry(NamedTuple):
    """State of a model's training between two steps."""

    w: Tree
    memory: Any  # optimiser state
    own: Any  # the client's personal model and its optimiser state; None without one
    last_sum: Array  # sum of the losses in the last epoch, and their number of samples
    first_sum: Array  # the same for the first epoch


@dataclass(frozen=True)
class _Training:
    """The training of all rows (clients with their models) of one device."""

    model: Model
    recipe: Recipe
    shared: Shared
    work: BatchPlan
    optimizer: Any
    objective: Callable

    def of_model(self, row: PlannedRows, member: Array | None) -> LocalUpdates:
        """Train one model of a row (a client); ``member`` is the model's index in its group."""
        model = self.model
        recipe = self.recipe
        received = self.shared.models[row.model_index]
        start = model.unflatten(received)
        key = jax.random.wrap_key_data(row.words) if model.random else None
        begun_row = _Begun(row=row, member=member, start=start, key=key)
        if recipe.inner_steps:
            own = (start, None)  # theta starts at w
        else:
            own = begun(model, self.optimizer, row.mixed)
        first = _Carry(
            w=start,
            memory=self.optimizer.init(start),
            own=own,
            last_sum=jnp.zeros(2),
            first_sum=jnp.zeros(2),
        )
        end = jax.lax.fori_loop(0, row.num_steps, partial(self._step, begun_row), first)
        gradient = None
        if recipe.gradient:
            gradient = _full_gradient(
                model=model,
                w=start,
                work=self.work,
                first=row.first,
                steps=jnp.minimum(row.per_epoch, row.num_steps),
            )
        own_start = received if row.mixed is None else row.mixed.start
        return LocalUpdates(
            update=flatten(end.w) - received,
            loss=end.last_sum[0] / jnp.maximum(end.last_sum[1], 1),
            first_loss=end.first_sum[0] / jnp.maximum(end.first_sum[1], 1),
            gradient=gradient,
            own=None if end.own is None else flatten(end.own[0]) - own_start,
        )

    def _step(self, begun_row: _Begun, s: Array, carry: _Carry) -> _Carry:
        """One training step of a model, on batch number ``s`` of its client."""
        row = begun_row.row
        at = row.first + s
        count = self.work.steps.valid[at]
        key = None if begun_row.key is None else jax.random.fold_in(begun_row.key, s)
        batch = _batch(work=self.work, row=row, at=at, key=key, member=begun_row.member)
        compute = jax.value_and_grad(self.objective, has_aux=True)
        (loss, updated), gradient = compute(carry.w, *batch)
        theta = None
        if self.recipe.inner_steps:
            gradient, theta = envelope_gradient(
                model=self.model,
                objective=self.objective,
                steps=self.recipe.inner_steps,
                envelope=self.shared.envelope,
                w=carry.w,
                gradient=gradient,
                batch=batch,
            )
        gradient = self._moving_gradient(begun_row, carry.w, gradient, updated)
        change, memory = self.optimizer.update(gradient, carry.memory, carry.w)
        rate = self.shared.lr if self.work.steps.rates is None else self.work.steps.rates[at]
        own = self._own_step(row, carry, theta, updated, rate=rate, batch=batch)
        w = stepped(model=self.model, w=carry.w, change=change, rate=rate, updated=updated)
        trained = self.shared.trained
        if trained is not None:  # weight decay would move the others too
            w = jax.tree.map(jnp.where, self.model.unflatten(trained), w, carry.w)
        summed = jnp.stack([loss * count, count])
        in_last_epoch = s >= row.num_steps - row.per_epoch
        last_sum = carry.last_sum + jnp.where(in_last_epoch, summed, 0)
        first_sum = carry.first_sum + jnp.where(s < row.per_epoch, summed, 0)
        return _Carry(w=w, memory=memory, own=own, last_sum=last_sum, first_sum=first_sum)

    def _moving_gradient(self, begun_row: _Begun, w: Tree, gradient: Tree, updated: Any) -> Tree:
        """The gradient that the optimiser gets: with all terms, and 0 for untrained parameters."""
        if self.recipe.proximal:  # FedProx: the gradient of mu/2 |w - start|^2
            gradient = jax.tree.map(
                lambda g, a, b: g + self.shared.mu * (a - b), gradient, w, begun_row.start
            )
        gradient = with_terms(self.model, gradient, w, begun_row.row.terms)
        gradient = held(self.model, gradient, self.shared.trained)
        if self.recipe.clip_norm is not None and updated is not None:
            gradient = without_statistics(self.model, gradient)
        return gradient

    def _own_step(
        self,
        row: PlannedRows,
        carry: _Carry,
        theta: Any,
        updated: Any,
        *,
        rate: Array,
        batch: tuple[Any, ...],
    ) -> Any:
        """The client's personal model after the step: pFedMe's theta, or APFL's personal model."""
        if self.recipe.inner_steps:
            return theta if updated is None else self.model.with_statistics(theta, updated), None
        if row.mixed is None:
            return carry.own
        return own_step(
            model=self.model,
            optimizer=self.optimizer,
            objective=self.objective,
            own=carry.own,
            w=carry.w,
            share=row.mixed.share,
            rate=rate,
            batch=batch,
        )


def _each_model(
    train_model: Callable[[PlannedRows, Any], LocalUpdates],
    detects: bool,
    row: PlannedRows,
) -> LocalUpdates:
    """Train the one model of a row (a client), or all models of its group in parallel."""
    if not row.model_index.ndim:
        return train_model(row._replace(positive=None), None)

    def of_member(model_index: Array, positive: Any, member: Array) -> LocalUpdates:
        positive = positive if detects else None
        return train_model(row._replace(model_index=model_index, positive=positive), member)

    return jax.vmap(of_member)(row.model_index, row.positive, jnp.arange(len(row.model_index)))


def _batch(
    work: BatchPlan,
    row: PlannedRows,
    at: Array,
    key: Array | None,
    member: Array | None,
) -> tuple[Any, ...]:
    """The batch of a step, as input to ``batch_loss``.

    Args:
        work: batches of all rows (clients with their models).
        row: the row that takes the step.
        at: index of the step among the steps of all rows.
        key: random key for dropout; None without dropout.
        member: which model of a group is trained; None if the row has one model.
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


@partial(jax.jit, static_argnames=("model", "mesh"), compiler_options=ONE_CORE)
def gradients(
    model: Model, mesh: Mesh, models: Float[Array, "K P"], work: BatchPlan, frozen: Tree = None
) -> Float[Array, "D n P"]:
    """Gradient of the mean training loss of every row (a client with a model) over all its samples,
    in inference mode, with regularisation.

    Args:
        model: the model.
        mesh: D devices.
        models: parameters of K models, indexed by ``work.rows.model_index``.
        work: a plan with batches that hold every sample of a row's client once.
        frozen: arrays of the model that are not trained.
    """
    return on_each_device(partial(_gradients, model), mesh)((models, frozen), work)


def _gradients(
    model: Model, shared: tuple[Float[Array, "K P"], Tree], work: BatchPlan
) -> Float[Array, "n P"]:
    """Full gradients (over all samples) of the rows (clients) of one device."""
    models, frozen = shared
    model = model.bound(frozen)

    def client(row: PlannedRows) -> Array:
        w = model.unflatten(models[row.model_index])
        return _full_gradient(model=model, w=w, work=work, first=row.first, steps=row.num_steps)

    return jax.lax.map(client, work.rows)


def _full_gradient(
    model: Model, w: Tree, work: BatchPlan, first: Array, steps: Array
) -> Float[Array, "P"]:
    """Gradient of the mean loss over some consecutive batches that hold every sample once."""

    def summed(w: Tree, indices: Array, mask: Array) -> Array:
        scores = model.apply(w, rows_of(work.x, indices), None)
        y = work.y[indices]
        losses = sample_losses(model, scores, y) * mask
        own = sample_weights(model, y)
        return jnp.sum(losses if own is None else losses * own)

    def step(s: Array, carry: tuple[Tree, Array]) -> tuple[Tree, Array]:
        total, examples = carry
        indices = work.steps.batches[first + s]
        count = work.steps.valid[first + s]
        mask = (jnp.arange(len(indices)) < count).astype(jnp.float32)
        own = sample_weights(model, jnp.asarray(work.y)[indices])
        if own is not None:
            count = jnp.sum(own * mask)
        return jax.tree.map(jnp.add, total, jax.grad(summed)(w, indices, mask)), examples + count

    zero = jax.tree.map(jnp.zeros_like, w)
    weighted = sample_weights(model, jnp.asarray(work.y)[:1]) is not None
    counts = jnp.float32 if weighted else work.steps.valid.dtype
    begin = (zero, jnp.zeros((), counts))
    total, examples = jax.lax.fori_loop(0, steps, step, begin)
    if model.statistics:  # running statistics have no gradient
        total = model.with_statistics(total, zero)
    least = jnp.finfo(jnp.float32).tiny if weighted else 1
    gradient = flatten(total) / jnp.maximum(examples, least)
    return gradient if model.penalty is None else gradient + flatten(jax.grad(model.penalty)(w))
