"""The clients of a federation, simulated or real, as a method sees them: ``World``.

A model is a flat ``float32[P]`` vector. Shapes: N clients, n rows of a call, P parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.ledger import Ledger
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining

UPDATE_MEMORY = 2**28  # bytes; default of ``World.update_memory``


@runtime_checkable
class World(Protocol):
    """The clients of a federation, simulated or real."""

    spec: ModelSpec
    work: LocalTraining  # the run's local-training settings
    ledger: Ledger
    total_clients: int  # N: ids are 0 .. N-1, including newcomers

    @property
    def update_memory(self) -> int:
        """Memory limit, in bytes, for the single updates that one call may request for measurements
        when its method needs only means."""
        ...

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """True clusters, in a simulation. Only the oracle may use them."""
        ...

    def begin(self, stream: Stream) -> None:
        """Begin communication round ``stream.round``. A simulation applies the round's data
        shifts."""
        ...

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A newly initialised model."""
        ...

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that are known and reachable in a round, ascending."""
        ...

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task on clients. All kinds of client work are in ``fedkin.tasks``.

        Args:
            task: what is sent down, what is computed and what is replied.
            clients: ids, one per row of the call.
            stream: the clients' random numbers; None if the task draws none.

        Returns:
            The reply. Rows of clients that did not reply hold the schema's missing values.

        Raises:
            TaskError: a reply that does not fit the schema, or a task that this world cannot run.
            ModelError: a model for which the task is not defined.
        """
        ...

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Tell the world that these clients change cluster now, so that they delete what they kept
        for the old one. A method calls this before they work for the new cluster. For other changes
        the run's loop calls it at the end of a round."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """What a checkpoint must store: the memory of simulated clients, or what a server knows
        about real ones."""
        ...

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore what ``memory`` returned."""
        ...


@runtime_checkable
class RegisteringWorld(Protocol):
    """A world that registers clients on their first contact; they may be absent later."""

    def known_clients(self) -> Int[np.ndarray, "c"]:
        """Ids of all clients that were ever accepted, ascending, including those that cannot be
        reached now."""
        ...


def known_clients(world: World) -> Int[np.ndarray, "c"] | None:
    """The clients that were ever accepted, including absent ones. None in a simulation, where a
    client that cannot be reached has not arrived yet or has left for good.

    Args:
        world: the world.
    """
    return world.known_clients() if isinstance(world, RegisteringWorld) else None


def client_names(world: World) -> Sequence[str] | None:
    """The names of all clients if the world knows them. Only messages need them."""
    return getattr(world, "client_names", None)


class LateReply(NamedTuple):
    """A reply that arrived after its round."""

    task: Task  # as requested from these clients
    clients: Int[np.ndarray, "n"]
    reply: Reply
    round: int  # the round of the request


@runtime_checkable
class WaitingWorld(Protocol):
    """A world that may wait for replies for more than a round."""

    def late_replies(self, task: Task, rounds: int) -> Sequence[LateReply]:
        """Late replies to a kind of task that arrived since the last call, each returned once.

        Args:
            task: a task of the kind.
            rounds: age in rounds after which a reply is useless. The world waits that long for
                replies to the next call of the kind.
        """
        ...


def late_replies(world: World, task: Task, rounds: int) -> Sequence[LateReply]:
    """Late replies of a world that waits for them; none for any other world.

    Args:
        world: the world.
        task: as in ``WaitingWorld.late_replies``.
        rounds: as in ``WaitingWorld.late_replies``.
    """
    return world.late_replies(task, rounds) if isinstance(world, WaitingWorld) else ()
