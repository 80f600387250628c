"""A world that passes every request on to another world, and records the replies for the metrics
of the round."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.run.metrics.observations import Observations


class InstrumentedWorld(WorldProxy):
    """Proxy of a world (the clients, simulated or real). It records the updates of single clients
    for the metrics, even if the method requests only means of updates.

    Instead of a task for means, this class runs the form of the task for single updates
    (``task.single()``), if there is one, and computes the means itself. It uses the same function
    as the world, so the bits are the same. All updates that clients send for one task must fit into
    ``update_memory`` bytes (default: the world's limit). If the updates do not fit, only means are
    requested, so the discrepancy (the distance of client models to their cluster's model) is not
    measured.
    """

    def __init__(self, world: World, update_memory: int | None = None) -> None:
        super().__init__(world)
        self.world = world
        self._update_memory = update_memory
        self.observations = Observations(world.total_clients, 0)

    @property
    def update_memory(self) -> int:
        """Memory in bytes that all updates from one call of ``run`` may take; by default the limit
        of the wrapped world."""
        return super().update_memory if self._update_memory is None else self._update_memory

    def begin(self, stream: Stream) -> None:
        """Discard the observations of the last round, and begin a round in the wrapped world."""
        self.observations = Observations(self.total_clients, stream.round, self.client_names)
        super().begin(stream)

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Record which clients change cluster, and pass this on to the wrapped world, which
        notifies these clients."""
        self.observations.reassigned[clients] = True
        super().reassigned(clients)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task, and return the reply that the method expects.

        Instead of a task for means of updates, its form for the updates of single clients is run,
        if there is enough memory for these updates. The means are then computed here.
        """
        single = task.single()
        separate = single is not None and self._fits(len(clients))
        done = single if single is not None and separate else task
        reply = super().run(done, clients, stream)
        self.observations.observe(done, clients, reply)
        return mean_reply(task, reply, clients) if separate else reply

    def _fits(self, rows: int) -> bool:
        """Whether ``rows`` updates of whole models fit into ``update_memory`` bytes."""
        return rows * self.spec.parameters * BYTES_PER_NUMBER <= self.update_memory
