"""Workers on many machines: a trainer and a scorer that distribute rows (clients with their models)
among Ray actors (processes).

An actor computes its rows with the same trainer and scorer as a run in one process, and the results
are put back in order. A client's arithmetic depends neither on the other rows nor on the actor, so
any number of actors gives the same bits as one process. Only ``add_sums`` changes the last bits:
there each actor adds up its rows first, and the order of an addition changes its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import ClientRows
from fedkin.core.engine_protocols import LocalUpdates, ScoreSums
from fedkin.core.replies import ReplyBuilder
from fedkin.core.train_call import TrainCall
from fedkin.data.federated import FederatedData
from fedkin.simulation.ray.pool import ActorPool, Cluster
from fedkin.simulation.run_rows import PartOfRows, SummedCall
from fedkin.simulation.workers import AnyModel, Workers

Rows = list[Int[np.ndarray, "_"]]  # the rows of each actor, as indices among the rows of a call


def ray_factory(
    engine: str,
    model: AnyModel,
    ids: Int[np.ndarray, "N"],
    clients_per_batch: int | None,
    actors: int | None,
) -> Callable[[FederatedData], Workers]:
    """A function that makes the trainer and the scorer for a data set, on the actors of a cluster.

    Args:
        engine: ``ray``, or the address of a cluster: ``ray:HOST:PORT``, ``ray:auto``.
        model: the model, which must be picklable.
        ids: the clients' ids in the random streams.
        clients_per_batch: clients trained at a time on one device, as in one process.
        actors: number of actors. None: one on each machine, or one on each core of a single
            machine.
    """

    def workers(data: FederatedData) -> Workers:
        pool = ActorPool(
            cluster=lambda: Cluster(engine, actors),
            data=data,
            model=model,
            ids=ids,
            clients_per_batch=clients_per_batch,
        )
        return RayScorer(pool), RayTrainer(pool)

    return workers


class RayTrainer:
    """A ``Trainer`` whose rows (clients with one model each) are trained by Ray actors."""

    def __init__(self, pool: ActorPool) -> None:
        self._pool = pool
        self._sizes = pool.data.train.sizes

    def train(self, call: TrainCall) -> LocalUpdates:
        """Train the rows of a training call (clients with one model each) on the Ray actors."""
        # The work of a row, by which rows are balanced: how many samples its training passes
        # through.
        sizes = self._sizes[call.clients]
        samples = sizes if call.work.steps is None else np.full(len(sizes), call.work.batch_size)
        dealt = self._pool.deal(call.clients, samples * call.num_steps)
        # Models are sent to each machine once, not with every part of the call.
        parts = [(replace(call.select(rows), models=call.models[:0]),) for rows in dealt]
        results = self._pool.compute("train", (call.models,), parts)
        return LocalUpdates(*(_by_row(dealt, arrays) for arrays in zip(*results, strict=True)))

    def add_sums(self, builder: ReplyBuilder, rows: ClientRows, compiled: bool) -> None:
        """Let each actor run a task for its rows (clients with their models) and add up their
        replies, and then add up the sums of all actors.

        The actors' sums are added in the order of the actors.

        Args:
            builder: builds the combined reply, and knows the task.
            rows: rows of the call of ``world.run``.
            compiled: whether the task runs in its compiled form, if it has one.
        """
        active = np.flatnonzero(rows.active)
        clients = rows.clients[active]
        # A row without training steps (e.g. scoring) passes through its samples once.
        samples = self._sizes[clients] * np.maximum(rows.steps[active], 1)
        call = SummedCall(
            task=builder.task,
            sizes=builder.sizes,
            compiled=compiled,
            together=rows.engine.together,
            stream=rows.stream,
        )
        dealt = [active[owned] for owned in self._pool.deal(clients, samples)]
        parts = [
            (PartOfRows(rows=part, clients=rows.clients[part], steps=rows.steps[part]),)
            for part in dealt
        ]
        replies = self._pool.compute("replies.partial", (call,), parts)
        for part, reply in zip(dealt, replies, strict=True):
            builder.merge(part, reply)

    def gradients(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, computed by the actors."""
        dealt = self._pool.deal(clients, self._sizes[clients])
        parts = [(clients[rows], model_index[rows]) for rows in dealt]
        return _by_row(dealt, self._pool.compute("trainer.gradients", (models,), parts))


class RayScorer:
    """A ``Scorer`` whose rows (clients with their models) are scored by Ray actors."""

    def __init__(self, pool: ActorPool) -> None:
        self._pool = pool

    def losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client."""
        dealt = self._deal(clients, "train")
        parts = [(clients[rows],) for rows in dealt]
        return _by_row(dealt, self._pool.compute("scorer.losses", (models,), parts))

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """Correct predictions, summed loss and number of samples of each row (a client with a
        model, or with one detector per class)."""
        dealt = self._deal(clients, split)
        parts = [(clients[rows], model_index[rows], split) for rows in dealt]
        sums = self._pool.compute("scorer.score", (models,), parts)
        return ScoreSums(*(_by_row(dealt, arrays) for arrays in zip(*sums, strict=True)))

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Int[np.ndarray, "t"]]:
        """For each model, the classes that it predicts for the samples of all clients,
        concatenated."""
        dealt = self._deal(clients, split)
        parts = [(clients[rows], split) for rows in dealt]
        classes = self._pool.compute("scorer.predict", (models,), parts)
        sizes = self._sizes(clients, split)
        # `classes` has a list of models for each actor; here each model gets the parts of all
        # actors.
        return [_by_sample(dealt, sizes, arrays) for arrays in zip(*classes, strict=True)]

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """One score for each sample of all rows (clients with one detector each), from the row's
        detector."""
        dealt = self._deal(clients, split)
        parts = [(clients[rows], model_index[rows], split) for rows in dealt]
        scores = self._pool.compute("scorer.raw_scores", (models,), parts)
        return _by_sample(dealt, self._sizes(clients, split), scores)

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of each model on each training sample of all clients."""
        dealt = self._deal(clients, "train")
        parts = [(clients[rows],) for rows in dealt]
        losses = self._pool.compute("scorer.sample_losses", (models,), parts)
        sizes = self._sizes(clients, "train")
        return np.stack([_by_sample(dealt, sizes, arrays) for arrays in zip(*losses, strict=True)])

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """All outputs of one model on each sample of all clients."""
        dealt = self._deal(clients, split)
        parts = [(clients[rows], split) for rows in dealt]
        scores = self._pool.compute("scorer.scores", (model,), parts)
        return _by_sample(dealt, self._sizes(clients, split), scores)

    def embeddings(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "t e"]:
        """The embeddings of all samples of all clients by the model's frozen network."""
        dealt = self._deal(clients, split)
        parts = [(clients[rows], split) for rows in dealt]
        found = self._pool.compute("scorer.embeddings", (), parts)
        return _by_sample(dealt, self._sizes(clients, split), found)

    def _deal(self, clients: Int[np.ndarray, "n"], split: str) -> Rows:
        """The rows (clients with their models) of each actor.

        Without rows, one actor gets an empty list, so that the results have the right type and
        shape.
        """
        return self._pool.deal(clients, self._sizes(clients, split)) or [np.zeros(0, np.int64)]

    def _sizes(self, clients: Int[np.ndarray, "n"], split: str) -> Int[np.ndarray, "n"]:
        """Number of samples that the client of each row (a client with its model) has in a
        split."""
        return self._pool.data.part(split).sizes[clients]


def positions(sizes: Int[np.ndarray, "n"], rows: Int[np.ndarray, "r"]) -> Int[np.ndarray, "t"]:
    """Positions of some rows' samples in the concatenated samples of all rows (a row is a client).

    Args:
        sizes: number of samples of each of the n rows.
        rows: the rows whose positions are returned.
    """
    offset = np.cumsum(sizes) - sizes
    taken = sizes[rows]
    return np.repeat(offset[rows] - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())


def _by_row(dealt: Rows, parts: Any) -> Any:
    """Results of the actors with one entry per row (a client with its model), put back in the order
    of the rows of the call.

    None if the actors returned None (e.g. for a gradient that was not requested).
    """
    if parts[0] is None:
        return None
    out = np.empty((sum(map(len, dealt)), *parts[0].shape[1:]), parts[0].dtype)
    for rows, part in zip(dealt, parts, strict=True):
        out[rows] = part
    return out


def _by_sample(dealt: Rows, sizes: Int[np.ndarray, "n"], parts: Any) -> Any:
    """Results of the actors with one entry per sample, put back in the order of the rows (clients)
    of the call."""
    out = np.empty((int(sizes.sum()), *parts[0].shape[1:]), parts[0].dtype)
    for rows, part in zip(dealt, parts, strict=True):
        out[positions(sizes, rows)] = part
    return out
