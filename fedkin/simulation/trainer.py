"""Local training and full gradients of rows (a client with a model each), spread over devices by number of steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.workers import NO_TERMS, ROW_TERMS, GradientTerms, LocalUpdates
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.simulation import local_training
from fedkin.simulation.batching import Batches, local_batches, rounded_up, sequential_batches
from fedkin.simulation.client_lanes import fastest_lanes
from fedkin.simulation.devices import has_room, mesh_of, replicate, rows_by_device, shard
from fedkin.simulation.local_training import Shared
from fedkin.simulation.padding import Plan, plan, stack_plans
from fedkin.simulation.recipe import Recipe
from fedkin.simulation.repeated_samples import RepeatedSamples, SamplesOfCall

_WIDTH = 64  # samples at a time of a full gradient
_MANY = 4  # models for each row, above which a call has many


class Trainer:
    """Trains the clients of one data set.

    Args:
        data: their samples.
        model: what is trained.
        devices: of XLA.
        lanes: rows that a device trains side by side; None for the number that trains the rows of a first call fastest.
        ids: numbers of the clients in streams.
        keep: whether the devices keep all samples between calls; None for an accelerator that has the room.
    """

    def __init__(
        self,
        data: FederatedData,
        model: Model,
        devices: list,
        lanes: int | None,
        ids: Int[np.ndarray, "N"],
        keep: bool | None = None,
    ) -> None:
        self._data, self._model, self._devices, self._lanes, self._ids = data, model, devices, lanes, ids
        self._largest = rounded_up(int(data.train.sizes.max()))
        self._keep = has_room(devices[0], data.x.nbytes) if keep is None else keep
        self._kept: dict[int, Any] = {}  # samples on so many of the devices
        self._repeated = RepeatedSamples()

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
        terms: GradientTerms = NO_TERMS,
        weights: Float[np.ndarray, "t"] | None = None,
    ) -> LocalUpdates:
        if self._lanes is None:
            own = (models, clients, model_index, work, num_steps, stream, gradient, terms, weights)
            lanes = fastest_lanes(self._model, len(clients), lambda lanes: self._side_by_side(lanes).train(*own))
            return self._side_by_side(lanes).train(*own)
        if work.positive is not None or (weights is not None and terms is NO_TERMS and not gradient):
            return self._train_groups(models, clients, model_index, work, num_steps, stream, weights)
        models, model_index = _models_of_rows(models, model_index)
        batches = self._batches(clients, work, num_steps, stream)
        separate = gradient and work.steps is not None  # these batches may have a sample twice, or not at all
        recipe = _recipe(work, self._lanes or 1, gradient=gradient and not separate)
        recipe = recipe if terms.envelope is None else recipe._replace(inner_steps=terms.envelope.steps)
        starts = np.cumsum(self._data.train.sizes[clients]) - self._data.train.sizes[clients]
        of_steps = None if weights is None else _step_weights(batches, weights, starts)
        owned, plans = self._distribute(clients, model_index, batches, stream, None, work, terms, of_steps)
        updates = self._compute(recipe, models, work, stream.round, owned, plans, terms)
        return updates._replace(gradient=self.gradients(models, clients, model_index)) if separate else updates

    def _side_by_side(self, lanes: int) -> Trainer:
        """The same with another number of lanes."""
        other = copy.copy(self)
        other._lanes = lanes
        return other

    def _train_groups(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        weights: Float[np.ndarray, "t"] | None,
    ) -> LocalUpdates:
        """Training of detectors, or of components of a mixture: those of one client are one row of the program, and
        train on the same batches."""
        recipe = _recipe(work, self._lanes or 1, detects=work.positive is not None)
        starts = np.cumsum(self._data.train.sizes[clients]) - self._data.train.sizes[clients]
        update = np.empty((len(clients), models.shape[1]), np.float32)
        last, first = np.empty((2, len(clients)), np.float32)
        for rows in by_client(clients, num_steps):
            own = clients[rows[:, 0]]
            batches = self._batches(own, work, num_steps[rows[:, 0]], stream)
            positive = None if work.positive is None else work.positive[rows]
            of_steps = None if weights is None else _step_weights(batches, weights, starts[rows])
            owned, plans = self._distribute(own, model_index[rows], batches, stream, positive, work, of_steps=of_steps)
            local = self._compute(recipe, models, work, stream.round, owned, plans)
            update[rows], last[rows], first[rows] = local.update, local.loss, local.first_loss
        return LocalUpdates(update, last, first, None)

    def _compute(
        self,
        recipe: Recipe,
        models: Float[np.ndarray, "K P"],
        work: LocalTraining,
        round: int,
        owned: list[Int[np.ndarray, "_"]],
        plans: Plan,
        terms: GradientTerms = NO_TERMS,
    ) -> LocalUpdates:
        mesh = mesh_of(self._devices[: len(owned)])
        inner = terms.envelope and tuple(np.float32(value) for value in (terms.envelope.strength, terms.envelope.lr))
        rates = np.float32(work.rate(round)), np.float32(work.mu)
        if self._keep and mesh.size not in self._kept:
            self._kept[mesh.size] = replicate(mesh, (self._data.x, self._data.y.astype(np.int32)))
        shared = replicate(mesh, Shared(models, *rates, terms.trained, inner))
        shared = shared._replace(samples=self._kept.get(mesh.size))
        updates = local_training.train(self._model, recipe, mesh, shared, shard(mesh, plans))
        return jax.tree.map(lambda part: _gathered(np.asarray(part), owned), updates)

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        sizes = self._data.train.sizes
        batches = [sequential_batches(int(sizes[c]), min(_WIDTH, self._largest)) for c in clients]
        owned, plans = self._distribute(clients, model_index, batches, None, gather=True)
        mesh = mesh_of(self._devices[: len(owned)])
        gradients = local_training.gradients(self._model, mesh, replicate(mesh, models), shard(mesh, plans))
        return _gathered(np.asarray(gradients), owned)

    def _distribute(
        self,
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r ..."],
        batches: list[Batches],
        stream: Stream | None,
        positive: Int[np.ndarray, "r ..."] | None = None,
        work: LocalTraining | None = None,
        terms: GradientTerms = NO_TERMS,
        of_steps: list[Float[np.ndarray, "_ ..."]] | None = None,
        gather: bool = False,
    ) -> tuple[list[Int[np.ndarray, "_"]], Plan]:
        """The rows of each device, and the plans of all devices as one."""
        owned = rows_by_device(batches, min(len(self._devices), len(clients)), self._lanes or 1)
        positive = np.zeros_like(model_index) if positive is None else positive
        plans, by_row = [], {name: getattr(terms, name) for name in ROW_TERMS}
        call = SamplesOfCall() if self._keep else self._repeated.begin([clients[r] for r in owned])
        x = self._data.x if call.samples is None else None
        for r in owned:
            own = [batches[i] for i in r]
            plan = self._plan(x, clients[r], model_index[r], own, stream, positive[r], gather or not self._keep)
            plan = plan._replace(**{n: v[r].astype(np.float32, copy=False) for n, v in by_row.items() if v is not None})
            if of_steps is not None:
                plan = plan._replace(weights=np.concatenate([of_steps[i] for i in r]).astype(np.float32))
            plans.append(plan if work is None else self._with_recipe(plan, clients[r], own, work, stream))
        whole, mesh = stack_plans(plans), mesh_of(self._devices[: len(owned)])
        return owned, whole if self._keep else whole._replace(x=self._repeated.on_devices(call, mesh, whole.x))

    def _with_recipe(
        self,
        plan: Plan,
        clients: Int[np.ndarray, "r"],
        batches: list[Batches],
        work: LocalTraining,
        stream: Stream | None,
    ) -> Plan:
        """The plan with the learning rate of every step and the class weights of every row, where there are any."""
        weights, rates = None, None
        if work.class_weights is not None:
            weights = work.loss_weights(self._data.label_counts(clients=clients))
        if work.step_schedule is not None:
            round = 0 if stream is None else stream.round
            own = [work.step_rates(round, len(b.valid)) for b in batches]
            rates = np.concatenate([r for r in own if r is not None]).astype(np.float32)
        return plan._replace(rates=rates, class_weights=weights)

    def _batches(
        self, clients: Int[np.ndarray, "r"], work: LocalTraining, num_steps: Int[np.ndarray, "r"], stream: Stream
    ) -> list[Batches]:
        sizes, pairs = self._data.train.sizes, list(zip(clients.tolist(), num_steps.tolist(), strict=True))
        drawn = {  # rows of one client have the same
            (c, n): local_batches(int(sizes[c]), work, n, int(self._ids[c]), stream, self._largest)
            for c, n in dict.fromkeys(pairs)
        }
        return [drawn[pair] for pair in pairs]

    def _plan(
        self,
        x: Shaped[np.ndarray, "M ..."] | None,
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r ..."],
        batches: list[Batches],
        stream: Stream | None,
        positive: Int[np.ndarray, "r ..."],
        gather: bool,
    ) -> Plan:
        words = np.zeros((len(clients), 2), np.uint32)
        if stream is not None and self._model.random:
            words = np.stack([stream.child("device").words(int(c)) for c in self._ids[clients]])
        own = (x, self._data.y, self._data.train, clients, model_index, batches)
        return plan(*own, words, positive, gather)


def _models_of_rows(
    models: Float[np.ndarray, "K P"], model_index: Int[np.ndarray, "r"]
) -> tuple[Float[np.ndarray, "k P"], Int[np.ndarray, "r"]]:
    """Where there are many more models than rows, those of the rows alone, and their numbers among these: of a thousand
    peers' models only those that are trained go to a device. Fewer are left as they are: each number of models is a
    program of its own, and rounds of another number of clients would compile more of them."""
    used, index = np.unique(model_index, return_inverse=True)
    count = rounded_up(len(model_index))
    if _MANY * count >= len(models):
        return models, model_index
    return models[np.pad(used, (0, count - len(used)))], index


def _recipe(work: LocalTraining, lanes: int, gradient: bool = False, detects: bool = False) -> Recipe:
    """The static options of a training program."""
    settings = (work.weight_decay, work.nesterov, work.clip_norm, work.label_smoothing, work.precision)
    return Recipe(work.optimizer, work.momentum, work.mu > 0, lanes, gradient, detects, *settings)


def _step_weights(
    batches: list[Batches], weights: Float[np.ndarray, "t"], starts: Int[np.ndarray, "r ..."]
) -> list[Float[np.ndarray, "_ ..."]]:
    """The weights of the samples of each step [S B], or of the samples of each member of a group [S G B], of every row.

    Args:
        batches: of each row.
        weights: of the samples of all rows, end to end.
        starts: where those of each row, or of each member, begin.
    """
    return [_of_members(weights, own, b.rows) for own, b in zip(starts, batches, strict=True)]


def _of_members(
    weights: Float[np.ndarray, "t"], starts: Int[np.ndarray, "..."], rows: Int[np.ndarray, "S B"]
) -> Float[np.ndarray, "S ... B"]:
    """The weights of a row's batches: of one model, or of each of several."""
    return weights[starts + rows] if not starts.ndim else weights[starts[:, None] + rows[:, None, :]]


def by_client(clients: Int[np.ndarray, "r"], num_steps: Int[np.ndarray, "r"]) -> Iterator[Int[np.ndarray, "g G"]]:
    """Groups of the rows that have the same client and number of steps; all groups of one size G at a time."""
    _, group, sizes = np.unique(np.stack([clients, num_steps]), axis=1, return_inverse=True, return_counts=True)
    order = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for size in np.unique(sizes):
        yield np.stack([rows for rows in order if len(rows) == size])


def _gathered(part: Float[np.ndarray, "D n ..."], owned: list[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "r ..."]:
    """Results of all devices, in the order of the rows of the call."""
    out = np.empty((sum(len(rows) for rows in owned), *part.shape[2:]), part.dtype)
    for device, rows in enumerate(owned):
        out[rows] = part[device, : len(rows)]
    return out
