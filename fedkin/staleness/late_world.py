"""A world whose means hold replies of earlier rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply, mean_vector
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World, late_replies
from fedkin.core.world_proxy import WorldProxy
from fedkin.staleness.buffer import LateBuffer, Row
from fedkin.staleness.settings import LateReplies


class LateWorld(WorldProxy):
    """A proxy of a world for one round.

    Args:
        world: of the clients.
        settings: how old replies may be.
        buffer: those that wait; it changes.
        assignment: of the clients, before the round.
        round: the present one.
    """

    def __init__(
        self, world: World, settings: LateReplies, buffer: LateBuffer, assignment: Int[np.ndarray, "N"], round: int
    ) -> None:
        super().__init__(world)
        self._settings, self._buffer, self._assignment, self._round = settings, buffer, assignment, round
        self.averages = self.single = 0

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply; means are of those that came in time, and of those that are due."""
        vector, single = mean_vector(task), task.single()
        if vector is None or single is None:
            self.single += task.charged == "sum"
            return self._world.run(task, clients, stream)
        self.averages += 1
        self._take_late(single, vector)
        reply = self._world.run(single, clients, stream)
        reply = self._postpone(task, vector, reply, clients, stream or Stream(0, self._round))
        known = self._buffer.known
        cluster = self._assignment[known.client]  # none yet, where a client that chooses its own has never been in time
        usable = ((cluster == known.model) | (cluster < 0)) & ~np.isin(known.client, clients[reply.arrived])
        oldest, length = self._round - self._settings.max_age, reply.arrays[vector].shape[1]
        rows, updates = self._buffer.take(task, self._round, oldest, length, usable)
        means = mean_reply(task, reply, clients)
        if not len(updates):
            return means
        updates = updates * self._settings.scale(self._round - rows.sent)[:, None]
        mean, weight = _mean(task, vector, reply, clients, rows, updates)
        return dataclasses.replace(means, arrays=means.arrays | {vector: mean}, weight=weight)

    def _take_late(self, task: Task, vector: str) -> None:
        """Put the replies of real clients that have come since to those that wait."""
        for late in late_replies(self._world, task, self._settings.max_age):
            some = late.reply.arrived
            arrays = {name: late.reply.arrays[name][some] for name in (vector, INDEX, WEIGHT)}
            self._buffer.add(late.task, late.clients[some], arrays, vector, late.round, self._round)

    def _postpone(self, task: Task, vector: str, reply: Reply, clients: Int[np.ndarray, "n"], stream: Stream) -> Reply:
        """The reply without those that a simulation lets come late, which wait."""
        delay = np.where(reply.arrived, self._settings.delays(clients, stream), 0)
        for rounds in np.unique(delay[delay > 0]).tolist():
            some = delay == rounds
            if rounds > self._settings.max_age:
                self._buffer.counts[1] += some.sum()
                continue
            arrays = {name: reply.arrays[name][some] for name in (vector, INDEX, WEIGHT)}
            self._buffer.add(task, clients[some], arrays, vector, self._round, self._round + rounds)
        return dataclasses.replace(reply, arrived=reply.arrived & (delay == 0))


def _mean(
    task: Task,
    vector: str,
    reply: Reply,
    clients: Int[np.ndarray, "n"],
    late: Row,
    updates: Float[np.ndarray, "b p"],
) -> tuple[Float[np.ndarray, "K p"], Float[np.ndarray, "K"]]:
    """The mean update of each model, of those that came in time and of late ones, and the examples behind it."""
    total = WeightedSum(task.sizes()["K"], updates.shape[1])
    order, weight = np.argsort(clients, kind="stable"), np.where(reply.arrived, reply.arrays[WEIGHT], 0)
    total.add(reply.arrays[vector][order], weight[order], reply.arrays[INDEX][order])
    total.add(updates, late.examples, late.model)
    return total.mean(reply.arrays[vector].dtype.type)
