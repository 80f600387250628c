"""A world that forwards every call, and records it for the metrics of the round."""

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
    """A proxy of a world for metrics, which need single updates even if the method needs only
    means.

    If a task requests sums and has a single form, the world is asked for the single form, and the
    means are computed here. They have the same bits, since the same function computes them. This
    requires that the updates of one call fit into ``update_memory`` bytes (by default the world's
    limit). For a larger call only the means are known, and no discrepancy.
    """

    def __init__(self, world: World, update_memory: int | None = None) -> None:
        super().__init__(world)
        self.world = world
        self._update_memory = update_memory
        self.observations = Observations(world.total_clients, 0)

    @property
    def update_memory(self) -> int:
        return super().update_memory if self._update_memory is None else self._update_memory

    def begin(self, stream: Stream) -> None:
        """Discard the last round's observations, and begin the round in the world."""
        self.observations = Observations(self.total_clients, stream.round, self.client_names)
        super().begin(stream)

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Notify clients whose clusters have changed."""
        self.observations.reassigned[clients] = True
        super().reassigned(clients)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        single = task.single()
        separate = single is not None and self._fits(len(clients))
        done = single if single is not None and separate else task
        reply = super().run(done, clients, stream)
        self.observations.observe(done, clients, reply)
        return mean_reply(task, reply, clients) if separate else reply

    def _fits(self, rows: int) -> bool:
        return rows * self.spec.parameters * BYTES_PER_NUMBER <= self.update_memory
