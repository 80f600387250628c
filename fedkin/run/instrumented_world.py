"""A world that passes every call on, and shows it to the metrics of the round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from fedkin.core.layout import BYTES_PER_NUMBER
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.task import Task
from fedkin.core.world import LateReply, World, client_names, late_replies
from fedkin.run.metrics.observations import Observations


class InstrumentedWorld:
    """A proxy of a world for metrics, which need single updates where the method needs means only.

    Where a task wants sums and has a single form, the world is asked for that and the means are
    taken here, by the same function and so with the same bits, as long as the updates of one call
    fit into ``update_memory`` bytes (the world's own limit by default). Of a larger call only the
    means are known, and no discrepancy.
    """

    def __init__(self, world: World, update_memory: int | None = None) -> None:
        self.world = world
        self.spec = world.spec
        self.work = world.work
        self.ledger = world.ledger
        self.total_clients = world.total_clients
        self.initial = world.initial
        self.clients = world.clients
        self.memory = world.memory
        self.recall = world.recall
        self._update_memory = update_memory
        self.observations = Observations(world.total_clients, 0)

    @property
    def update_memory(self) -> int:
        return self.world.update_memory if self._update_memory is None else self._update_memory

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        return self.world.true_clusters

    @property
    def client_names(self) -> Sequence[str] | None:
        """Names of all clients, for messages; None where they have none."""
        return client_names(self.world)

    def begin(self, stream: Stream) -> None:
        """Forget the round before, and let the world begin this one."""
        self.observations = Observations(self.total_clients, stream.round, self.client_names)
        self.world.begin(stream)

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Let clients know it, whose clusters have changed."""
        self.observations.reassigned[clients] = True
        self.world.reassigned(clients)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        single = task.single()
        separate = single is not None and self._fits(len(clients))
        done = single if single is not None and separate else task
        reply = self.world.run(done, clients, stream)
        self.observations.observe(done, clients, reply)
        return mean_reply(task, reply, clients) if separate else reply

    def late_replies(self, task: Task, rounds: int) -> Sequence[LateReply]:
        """Those of the world."""
        return late_replies(self.world, task, rounds)

    def _fits(self, rows: int) -> bool:
        return rows * self.spec.parameters * BYTES_PER_NUMBER <= self.update_memory
