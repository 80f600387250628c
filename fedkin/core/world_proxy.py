"""A world that forwards every call to another world. Subclasses observe or change the data that
pass between a method and its clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world import (
    LateReply,
    World,
    client_names,
    clients_at_work,
    ends_early,
    late_replies,
    wait_for_all_clients,
    wait_for_late_replies,
)


class WorldProxy:
    """A proxy of a world.

    Args:
        world: the wrapped world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.spec = world.spec
        self.work = world.work
        self.ledger = world.ledger
        self.total_clients = world.total_clients
        self.initial = world.initial
        self.clients = world.clients
        self.memory = world.memory
        self.recall = world.recall

    @property
    def update_memory(self) -> int:
        """The wrapped world's memory limit for updates of single clients."""
        return self._world.update_memory

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """The true cluster of each client; None if the wrapped world does not know it."""
        return self._world.true_clusters

    @property
    def client_names(self) -> Sequence[str] | None:
        """The names of all clients, for messages; None if they have no names."""
        return client_names(self._world)

    def begin(self, stream: Stream) -> None:
        """Begin a round in the wrapped world."""
        self._world.begin(stream)

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Notify clients whose clusters have changed, through the wrapped world."""
        self._world.reassigned(clients)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task in the wrapped world, and return its reply."""
        return self._world.run(task, clients, stream)

    def late_replies(self, task: Task, rounds: int) -> Sequence[LateReply]:
        """The late replies of the wrapped world."""
        return late_replies(self._world, task, rounds)

    def end_after(self, replies: int) -> bool:
        """Let the wrapped world's next task end early, if it can."""
        return ends_early(self._world, replies)

    def at_work(self, task: Task) -> Int[np.ndarray, "c"] | None:
        """The wrapped world's clients whose late replies may still come."""
        return clients_at_work(self._world, task)

    def wait(self) -> bool:
        """Wait a moment for late replies of the wrapped world, if it has any."""
        return wait_for_late_replies(self._world)

    def wait_for_all(self) -> None:
        """Let the wrapped world's next task wait for clients that are at work, too."""
        wait_for_all_clients(self._world)
