"""What clients tell of their history: how many samples of each step each model classifies
correctly.

Shapes: n clients of a call, N in all, M models, S steps, k models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.display import client_list
from fedkin.core.errors import MethodError
from fedkin.core.world import World, client_names
from fedkin.tasks.feddrift import SampleCounts, SpanScores


@dataclass(frozen=True)
class History:
    """Correct predictions of each model in use on each step of each client, and samples, 0 where it
    did not reply."""

    correct: Int[np.ndarray, "N S M"]
    samples: Int[np.ndarray, "N S"]
    in_use: Int[np.ndarray, "k"]

    def accuracy(self, step: int) -> Float[np.ndarray, "N M"]:
        """On the samples of one step; -inf of models that are not in use, and of clients without
        samples."""
        accuracy = np.full((len(self.samples), self.correct.shape[2]), -np.inf)
        own = np.flatnonzero(self.samples[:, step])
        accuracy[np.ix_(own, self.in_use)] = (
            self.correct[own, step][:, self.in_use] / self.samples[own, step, None]
        )
        return accuracy

    def between(
        self, owner: Int[np.ndarray, "N S"], models: Int[np.ndarray, "k"]
    ) -> Float[np.ndarray, "k k"]:
        """Accuracy of model i on all samples that model j owns; NaN where these are none.

        Args:
            owner: model of each (client, step).
            models: which of them.
        """
        owned = (owner[..., None] == models).astype(np.float64)
        correct = np.einsum("nsi,nsj->ij", self.correct[:, :, models], owned)
        samples = np.einsum("ns,nsj->j", self.samples, owned)
        return np.where(samples > 0, correct / np.maximum(samples, 1), np.nan)


def gather(
    world: World,
    models: Float[np.ndarray, "M P"],
    in_use: Int[np.ndarray, "k"],
    ends: Int[np.ndarray, "N S"],
    clients: Int[np.ndarray, "n"],
) -> History:
    """Let clients score the models in use on every step of their history.

    Args:
        world: of the clients.
        models: all of them.
        in_use: those that are sent.
        ends: how many samples each client had after each step.
        clients: who is asked.
    """
    start, stop = np.moveaxis(spans_of(ends), 2, 0)
    row, step = np.nonzero((stop > start)[clients])
    client = clients[row]
    reply = world.run(SpanScores(models[in_use], start[client, step], stop[client, step]), client)
    correct, samples = np.zeros((*ends.shape, len(models)), np.int64), np.zeros_like(ends)
    client, step = client[reply.arrived], step[reply.arrived]
    correct[client[:, None], step[:, None], in_use] = reply.correct[reply.arrived]
    samples[client, step] = (stop - start)[client, step]
    return History(correct, samples, in_use)


def count(
    world: World, ends: Int[np.ndarray, "N S"], clients: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "N S"]:
    """How many samples clients had after each step, with the present number of some clients in the
    last.

    Args:
        world: of the clients.
        ends: as they were known.
        clients: who is asked.

    Raises:
        MethodError: a client that has fewer than before.
    """
    reply, ends = world.run(SampleCounts(), clients), ends.copy()
    ends[clients[reply.arrived], -1] = reply.samples[reply.arrived]
    fewer = np.flatnonzero((np.diff(ends, axis=1) < 0).any(axis=1))
    if len(fewer):
        raise MethodError(
            f"FedDrift needs clients that keep the samples of earlier steps, and client "
            f"{client_list(fewer[:1], client_names(world))} has fewer than "
            "before: set shift.history = true, or take another method"
        )
    return ends


def spans_of(ends: Int[np.ndarray, "N S"]) -> Int[np.ndarray, "N S 2"]:
    """The first sample of each step, and the one after its last."""
    starts = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
    return np.stack([starts, ends], axis=2)
