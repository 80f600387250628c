"""Training and gradients of some rows, each a client with a model, spread over the devices by their number of steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model
from fedkin.simulation import local_training
from fedkin.simulation.batching import Batches, bucket, for_work, in_order
from fedkin.simulation.devices import mesh_of, replicated, shares, split
from fedkin.simulation.local_training import Recipe
from fedkin.simulation.padding import Plan, plan, side_by_side

_WIDTH = 64  # samples at a time of a full gradient


class Trainer:
    """Trains the clients of one data set, which streams know by ``ids``; ``lanes`` of them side by side on a device."""

    def __init__(self, data: FederatedData, model: Model, devices: list, lanes: int, ids: Int[np.ndarray, "N"]) -> None:
        self._data, self._model, self._devices, self._lanes, self._ids = data, model, devices, lanes, ids
        self._largest = bucket(int(data.train.sizes.max()))

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
    ) -> tuple[Float[np.ndarray, "r P"], Float[np.ndarray, "r"], Float[np.ndarray, "r"], Float[np.ndarray, "g P"]]:
        """Updates, mean losses in the last and in the first epoch, and full gradients at the start (no rows if nobody
        asks); ``num_steps`` is epochs, or steps, of each; ``work.positive`` has the classes of these rows' detectors."""
        if work.positive is not None:
            return self._train_detectors(models, clients, model_index, work, num_steps, stream)
        batches = self._batches(clients, work, num_steps, stream)
        aside = gradient and work.steps is not None  # so many steps may see a sample twice, or never
        recipe = Recipe(work.optimizer, work.momentum, work.mu > 0, self._lanes, gradient and not aside)
        own, todo = self._dealt(clients, model_index, batches, stream)
        update, last, first, *slope = self._compute(recipe, models, work, own, todo)
        if aside:
            slope = [self.gradients(models, clients, model_index)]
        return update, last, first, slope[0] if slope else update[:0]

    def _train_detectors(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
    ) -> tuple[Float[np.ndarray, "r P"], Float[np.ndarray, "r"], Float[np.ndarray, "r"], Float[np.ndarray, "g P"]]:
        """The same for detectors: those of one client are one row of the program, and see each batch together."""
        assert work.positive is not None
        recipe = Recipe(work.optimizer, work.momentum, work.mu > 0, self._lanes, detects=True)
        update = np.empty((len(clients), models.shape[1]), np.float32)
        last, first = np.empty((2, len(clients)), np.float32)
        for rows in by_client(clients, num_steps):
            batches = self._batches(clients[rows[:, 0]], work, num_steps[rows[:, 0]], stream)
            own, todo = self._dealt(clients[rows[:, 0]], model_index[rows], batches, stream, work.positive[rows])
            update[rows], last[rows], first[rows] = self._compute(recipe, models, work, own, todo)
        return update, last, first, update[:0]

    def _compute(
        self,
        recipe: Recipe,
        models: Float[np.ndarray, "K P"],
        work: LocalTraining,
        own: list[Int[np.ndarray, "_"]],
        todo: Plan,
    ) -> list[Shaped[np.ndarray, "r ..."]]:
        mesh = mesh_of(self._devices[: len(own)])
        arguments = (replicated(mesh, (models, np.float32(work.lr), np.float32(work.mu))), split(mesh, todo))
        results = local_training.train(self._model, recipe, mesh, *arguments)
        return [_together(np.asarray(part), own) for part in results if part is not None]

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model."""
        sizes = self._data.train.sizes
        ordered = [in_order(int(sizes[c]), min(_WIDTH, self._largest)) for c in clients]
        own, todo = self._dealt(clients, model_index, ordered, None)
        mesh = mesh_of(self._devices[: len(own)])
        found = local_training.gradients(self._model, mesh, replicated(mesh, models), split(mesh, todo))
        return _together(np.asarray(found), own)

    def _dealt(
        self,
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r ..."],
        batches: list[Batches],
        stream: Stream | None,
        positive: Int[np.ndarray, "r ..."] | None = None,
    ) -> tuple[list[Int[np.ndarray, "_"]], Plan]:
        """Which rows each device has, and what they are to do."""
        own = shares(batches, min(len(self._devices), len(clients)))
        positive = np.zeros_like(model_index) if positive is None else positive
        plans = [self._plan(clients[r], model_index[r], [batches[i] for i in r], stream, positive[r]) for r in own]
        return own, side_by_side(plans)

    def _batches(
        self, clients: Int[np.ndarray, "r"], work: LocalTraining, num_steps: Int[np.ndarray, "r"], stream: Stream
    ) -> list[Batches]:
        sizes, pairs = self._data.train.sizes, zip(clients, num_steps, strict=True)
        return [for_work(int(sizes[c]), work, int(much), int(self._ids[c]), stream, self._largest) for c, much in pairs]

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
    """Rows of one client and one amount of work together; groups of one size G at a time, in order of clients."""
    _, group, sizes = np.unique(np.stack([clients, num_steps]), axis=1, return_inverse=True, return_counts=True)
    order = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for size in np.unique(sizes):
        yield np.stack([rows for rows in order if len(rows) == size])


def _together(part: Float[np.ndarray, "D n ..."], own: list[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "r ..."]:
    """What the devices found, in the order of the rows that were asked for."""
    out = np.empty((sum(len(rows) for rows in own), *part.shape[2:]), part.dtype)
    for device, rows in enumerate(own):
        out[rows] = part[device, : len(rows)]
    return out
