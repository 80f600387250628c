"""Local training and full gradients of rows (a client with a model each), spread over devices by number of steps."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Float, Int

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.workers import LocalUpdates
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.simulation import local_training
from fedkin.simulation.batching import Batches, local_batches, rounded_up, sequential_batches
from fedkin.simulation.devices import mesh_of, replicate, rows_by_device, shard
from fedkin.simulation.local_training import Recipe, Shared
from fedkin.simulation.padding import Plan, plan, stack_plans

_WIDTH = 64  # samples at a time of a full gradient


class Trainer:
    """Trains the clients of one data set, numbered by ``ids`` in streams; ``lanes`` of them at a time on a device."""

    def __init__(self, data: FederatedData, model: Model, devices: list, lanes: int, ids: Int[np.ndarray, "N"]) -> None:
        self._data, self._model, self._devices, self._lanes, self._ids = data, model, devices, lanes, ids
        self._largest = rounded_up(int(data.train.sizes.max()))

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
    ) -> LocalUpdates:
        if work.positive is not None:
            return self._train_detectors(models, clients, model_index, work, num_steps, stream)
        batches = self._batches(clients, work, num_steps, stream)
        separate = gradient and work.steps is not None  # these batches may have a sample twice, or not at all
        recipe = Recipe(work.optimizer, work.momentum, work.mu > 0, self._lanes, gradient and not separate)
        owned, plans = self._distribute(clients, model_index, batches, stream)
        updates = self._compute(recipe, models, work, owned, plans)
        return updates._replace(gradient=self.gradients(models, clients, model_index)) if separate else updates

    def _train_detectors(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
    ) -> LocalUpdates:
        """Training of detectors: those of one client are one row of the program, and train on the same batches."""
        assert work.positive is not None
        recipe = Recipe(work.optimizer, work.momentum, work.mu > 0, self._lanes, detects=True)
        update = np.empty((len(clients), models.shape[1]), np.float32)
        last, first = np.empty((2, len(clients)), np.float32)
        for rows in by_client(clients, num_steps):
            own = clients[rows[:, 0]]
            batches = self._batches(own, work, num_steps[rows[:, 0]], stream)
            owned, plans = self._distribute(own, model_index[rows], batches, stream, work.positive[rows])
            update[rows], last[rows], first[rows], _ = self._compute(recipe, models, work, owned, plans)
        return LocalUpdates(update, last, first, None)

    def _compute(
        self,
        recipe: Recipe,
        models: Float[np.ndarray, "K P"],
        work: LocalTraining,
        owned: list[Int[np.ndarray, "_"]],
        plans: Plan,
    ) -> LocalUpdates:
        mesh = mesh_of(self._devices[: len(owned)])
        shared = replicate(mesh, Shared(models, np.float32(work.lr), np.float32(work.mu)))
        updates = local_training.train(self._model, recipe, mesh, shared, shard(mesh, plans))
        return jax.tree.map(lambda part: _gathered(np.asarray(part), owned), updates)

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        sizes = self._data.train.sizes
        batches = [sequential_batches(int(sizes[c]), min(_WIDTH, self._largest)) for c in clients]
        owned, plans = self._distribute(clients, model_index, batches, None)
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
    ) -> tuple[list[Int[np.ndarray, "_"]], Plan]:
        """The rows of each device, and the plans of all devices as one."""
        owned = rows_by_device(batches, min(len(self._devices), len(clients)))
        positive = np.zeros_like(model_index) if positive is None else positive
        plans = [self._plan(clients[r], model_index[r], [batches[i] for i in r], stream, positive[r]) for r in owned]
        return owned, stack_plans(plans)

    def _batches(
        self, clients: Int[np.ndarray, "r"], work: LocalTraining, num_steps: Int[np.ndarray, "r"], stream: Stream
    ) -> list[Batches]:
        sizes, pairs = self._data.train.sizes, zip(clients, num_steps, strict=True)
        return [local_batches(int(sizes[c]), work, int(n), int(self._ids[c]), stream, self._largest) for c, n in pairs]

    def _plan(
        self,
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r ..."],
        batches: list[Batches],
        stream: Stream | None,
        positive: Int[np.ndarray, "r ..."],
    ) -> Plan:
        words = np.zeros((len(clients), 2), np.uint32)
        if stream is not None and self._model.random:
            words = np.stack([stream.child("device").words(int(c)) for c in self._ids[clients]])
        return plan(self._data.x, self._data.y, self._data.train, clients, model_index, batches, words, positive)


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
