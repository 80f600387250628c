"""The world as a method sees it whose clients have a part of their own (``personalized.py``): what they train is theirs
too, and everything else is as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world import World, client_names
from fedkin.tasks.personal import Personal, join
from fedkin.tasks.train import Train


class PersonalWorld:
    """A proxy of a world, in which training of whole models is personal.

    Args:
        world: of the clients.
        personal: from a training to the one that clients do in its place.
        head: which slice of a model is its last layer.
    """

    def __init__(self, world: World, personal: Callable[[Train], Task], head: slice | None) -> None:
        self._world, self._personal, self._head = world, personal, head
        self.spec, self.work, self.ledger = world.spec, world.work, world.ledger
        self.total_clients, self.initial, self.clients = world.total_clients, world.initial, world.clients
        self.begin, self.reassigned = world.begin, world.reassigned
        self.memory, self.recall = world.memory, world.recall

    @property
    def update_memory(self) -> int:
        return self._world.update_memory

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        return self._world.true_clusters

    @property
    def client_names(self) -> Sequence[str] | None:
        """Names of all clients, for messages; None where they have none."""
        return client_names(self._world)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """As the world does it; a training of whole models with the clients' own parts."""
        if type(task) is not Train or task.part is not None:
            return self._world.run(task, clients, stream)
        own = self._personal(task)
        reply = self._world.run(own, clients, stream)
        return whole(reply, task.models.shape[1], self._head) if isinstance(own, Personal) else reply


def whole(reply: Reply, parameters: int, head: slice | None) -> Reply:
    """A reply to a training of bodies as one to a training of whole models, whose heads have not moved.

    Args:
        reply: with updates of bodies.
        parameters: P.
        head: which slice of a model is its head.
    """
    bodies: Float[np.ndarray, "n b"] = reply.update
    heads = np.zeros((len(bodies), parameters - bodies.shape[1]), np.float32)
    return replace(reply, arrays={**reply.arrays, "update": join(bodies, heads, head)})
