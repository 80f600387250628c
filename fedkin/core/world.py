"""The clients of a federation, simulated or real, as a method sees them: ``World``.

A model is a flat ``float32[P]`` vector. Shapes: N clients, n rows of a call, P parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.layout import ModelSpec
from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining

UPDATE_MEMORY = 2**28  # bytes, as ``World.update_memory`` is by default


@runtime_checkable
class World(Protocol):
    """The clients of a federation, simulated or real."""

    spec: ModelSpec
    work: LocalTraining  # the run's settings of local training
    ledger: Ledger
    total_clients: int  # N: ids are 0 .. N-1, newcomers included

    @property
    def update_memory(self) -> int:
        """Bytes of single updates that one call may ask for to measure them, where its method needs
        means only."""
        ...

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """True clusters, in a simulation; only the oracle may use them."""
        ...

    def begin(self, stream: Stream) -> None:
        """Begin communication round ``stream.round``; a simulation applies the data shifts of the
        round."""
        ...

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A newly initialised model."""
        ...

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that are known and reachable in a round, ascending."""
        ...

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Let clients do a task; all kinds of client work are in ``fedkin.tasks``.

        Args:
            task: what travels down, what is computed and what travels up.
            clients: ids, one per row of the call.
            stream: of the clients' random numbers; None where the task draws none.

        Returns:
            The reply: rows of clients that did not reply hold what the schema says.

        Raises:
            TaskError: a reply that does not fit the schema, or a task that this world cannot run.
            ModelError: a model that the task is not defined for.
        """
        ...

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """These clients' clusters change now: they forget what they kept for the old ones. A method
        says so before they work for the new cluster; of other changes the run's loop says so at the
        end of a round."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """What a checkpoint must store: the memory of simulated clients, or what a server knows of
        real ones."""
        ...

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore what ``memory`` returned."""
        ...


@runtime_checkable
class RegisteringWorld(Protocol):
    """A world whose clients are registered when they first come, and may be away later."""

    def known_clients(self) -> Int[np.ndarray, "c"]:
        """Ids of all clients that were ever accepted, ascending, those that cannot be reached now
        included."""
        ...


def known_clients(world: World) -> Int[np.ndarray, "c"] | None:
    """The clients that were ever accepted, also those that are away; None in a simulation, where a
    client that cannot be reached has not arrived yet or has left for good.

    Args:
        world: of the clients.
    """
    return world.known_clients() if isinstance(world, RegisteringWorld) else None


def client_names(world: World) -> Sequence[str] | None:
    """The names of all clients, where the world knows them; only messages need them."""
    return getattr(world, "client_names", None)


class LateReply(NamedTuple):
    """A reply that came after its round."""

    task: Task  # as it was asked of these clients
    clients: Int[np.ndarray, "n"]
    reply: Reply
    round: int  # that it is of


@runtime_checkable
class WaitingWorld(Protocol):
    """A world that may wait for replies longer than a round."""

    def late_replies(self, task: Task, rounds: int) -> Sequence[LateReply]:
        """Replies to a kind of task that have come since they were waited for, each once.

        Args:
            task: of the kind.
            rounds: after which a reply is of no use; those to the next call of the kind are waited
                for so long.
        """
        ...


def late_replies(world: World, task: Task, rounds: int) -> Sequence[LateReply]:
    """Late replies of a world that waits for them; none of any other world.

    Args:
        world: of the clients.
        task: as ``WaitingWorld.late_replies`` has it.
        rounds: as ``WaitingWorld.late_replies`` has it.
    """
    return world.late_replies(task, rounds) if isinstance(world, WaitingWorld) else ()
