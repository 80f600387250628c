"""The world of a method whose clients keep a part of their models: they train that part, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.tasks.fedper import Personal, join
from fedkin.tasks.train import Train


class PersonalWorld(WorldProxy):
    """A proxy of a world, in which training of whole models is personal.

    Args:
        world: of the clients.
        personal: from a training to the one that clients do in its place.
        head: which slice of a model is its last layer.
    """

    def __init__(self, world: World, personal: Callable[[Train], Task], head: slice | None) -> None:
        super().__init__(world)
        self._personal = personal
        self._head = head

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """As the world does it; a training of whole models with the clients' own parts."""
        if type(task) is not Train or task.part is not None:
            return self._world.run(task, clients, stream)
        personal = self._personal(task)
        reply = self._world.run(personal, clients, stream)
        return whole(reply, task.models.shape[1], self._head) if isinstance(personal, Personal) else reply


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
