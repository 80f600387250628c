"""Counts of correct predictions, for each client, time step and model (FedDrift).

Shapes: n clients that are asked, N clients in all, M models, S steps, k models in use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.object_repr import client_list
from fedkin.core.world import World, client_names
from fedkin.tasks.feddrift import SampleCounts, SpanScores


@dataclass(frozen=True)
class History:
    """For each client, time step and model in use: the number of the client's samples of this step
    that the model predicts correctly."""

    correct: Int[np.ndarray, "N S M"]
    samples: Int[np.ndarray, "N S"]  # number of samples; 0 for a client that did not reply
    in_use: Int[np.ndarray, "k"]  # models that are in use

    def accuracy(self, step: int) -> Float[np.ndarray, "N M"]:
        """Accuracy of each model on each client's samples of one time step.

        It is -inf for models that are not in use, and for clients without samples.
        """
        clients = np.flatnonzero(self.samples[:, step])
        correct = self.correct[clients, step][:, self.in_use]
        accuracy = np.full((len(self.samples), self.correct.shape[2]), -np.inf)
        accuracy[np.ix_(clients, self.in_use)] = correct / self.samples[clients, step, None]
        return accuracy

    def between(
        self, owner: Int[np.ndarray, "N S"], models: Int[np.ndarray, "k"]
    ) -> Float[np.ndarray, "k k"]:
        """Accuracy of model i on all samples that model j is trained on; NaN if there are none.

        Args:
            owner: the model that owns each (client, step) pair, which means that it is trained on
                the samples of this pair.
            models: models to compare.
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
    """Let clients evaluate the models in use on the samples of every time step. Returns their
    counts of correct predictions.

    Args:
        world: the clients.
        models: all M models.
        in_use: models that are sent.
        ends: number of samples of each client after each time step.
        clients: clients that evaluate.
    """
    start, stop = np.moveaxis(spans_of(ends), 2, 0)
    row, step = np.nonzero((stop > start)[clients])
    client = clients[row]
    task = SpanScores(models[in_use], start[client, step], stop[client, step])
    reply = world.run(task, client)

    client = client[reply.arrived]
    step = step[reply.arrived]
    correct = np.zeros((*ends.shape, len(models)), np.int64)
    correct[client[:, None], step[:, None], in_use] = reply.correct[reply.arrived]
    samples = np.zeros_like(ends)
    samples[client, step] = (stop - start)[client, step]
    return History(correct, samples, in_use)


def count(
    world: World, ends: Int[np.ndarray, "N S"], clients: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "N S"]:
    """Number of samples of each client (row) after each time step (column). The last column is set
    to the numbers that clients report now.

    Args:
        world: the clients.
        ends: the numbers as known before.
        clients: clients whose present number is requested.

    Raises:
        MethodError: a client has fewer samples than before.
    """
    reply = world.run(SampleCounts(), clients)
    ends = ends.copy()
    ends[clients[reply.arrived], -1] = reply.samples[reply.arrived]
    fewer = np.flatnonzero((np.diff(ends, axis=1) < 0).any(axis=1))
    if len(fewer):
        raise MethodError(
            "FedDrift needs clients that keep the samples of earlier steps, but client "
            f"{client_list(fewer[:1], client_names(world))} has fewer samples than before: set "
            "shift.history = true, or use another method"
        )
    return ends


def spans_of(ends: Int[np.ndarray, "N S"]) -> Int[np.ndarray, "N S 2"]:
    """For each client and time step, the positions of the step's first sample and of the sample
    after its last one.

    Args:
        ends: number of samples of each client after each step.
    """
    starts = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
    return np.stack([starts, ends], axis=2)
