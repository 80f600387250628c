"""The interface between methods and clients, simulated or real: ``World``.

A model is a flat ``float32[P]`` vector. Shapes: N clients, n rows of a call of ``World.run`` (each
row is a client that does the task, with its entries in the task's arrays), P parameters.
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
    """The clients of a federation, simulated or real, as a method sees them."""

    spec: ModelSpec
    work: LocalTraining  # the run's local-training settings
    ledger: Ledger
    total_clients: int  # N: ids are 0 .. N-1, including newcomers

    @property
    def update_memory(self) -> int:
        """Memory limit in bytes for updates of single clients in tasks for which the method needs
        only the means of updates. Within the limit, single updates are computed too, for
        measurements."""
        ...

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """The true cluster of each client; None if unknown. Only the oracle method may use it."""
        ...

    def begin(self, stream: Stream) -> None:
        """Begin communication round ``stream.round``. A simulation applies the round's data
        shifts."""
        ...

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """The parameters of a newly initialised model."""
        ...

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that are known and reachable in a round, ascending."""
        ...

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task on clients. All kinds of client work are in ``fedkin.tasks``.

        Args:
            task: the data sent to clients, their computation and their reply.
            clients: ids, one per row (a client that does the task once).
            stream: the clients' random numbers; None if the task draws none.

        Returns:
            The reply. In its arrays, rows of clients that did not reply hold the schema's missing
            values.

        Raises:
            TaskError: a reply does not fit the schema, or this world cannot run the task.
            ModelError: the task is not defined for the model.
        """
        ...

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Notify clients that their cluster changes now, so that they delete memory with the
        lifetime ``assignment``. A method calls this before these clients work for the new cluster.
        For other changes of clusters, the run's loop calls this function at the end of a round."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint: the memory of simulated clients, or a server's records of real
        clients."""
        ...

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore the arrays that ``memory`` returned."""
        ...


@runtime_checkable
class RegisteringWorld(Protocol):
    """A world of real clients. It registers a client at its first contact. The client may be
    absent later."""

    def known_clients(self) -> Int[np.ndarray, "c"]:
        """Ids of all clients that were ever accepted, ascending, including clients that cannot be
        reached now."""
        ...


def known_clients(world: World) -> Int[np.ndarray, "c"] | None:
    """Ids of all clients that a world ever accepted, including absent ones.

    None in a simulation. There, no client is absent for a while: a client that cannot be reached
    has not arrived yet, or has left for good.

    Args:
        world: the world.
    """
    return world.known_clients() if isinstance(world, RegisteringWorld) else None


def scored_clients(world: World, round: int) -> Int[np.ndarray, "c"]:
    """Ids of the clients that count in the scores of a round, ascending: the reachable ones without
    those that never reply by design (``Population.silent``).

    Args:
        world: the world.
        round: the round.
    """
    reachable = world.clients(round)
    silent = getattr(world, "silent_clients", ())
    return reachable[~np.isin(reachable, silent)] if len(silent) else reachable


def client_names(world: World) -> Sequence[str] | None:
    """The names of all clients, for messages; None if the world knows no names."""
    return getattr(world, "client_names", None)


class LateReply(NamedTuple):
    """A reply that arrived after its round."""

    task: Task  # as requested from these clients
    clients: Int[np.ndarray, "n"]
    reply: Reply
    round: int  # the round of the request


@runtime_checkable
class WaitingWorld(Protocol):
    """A world that may wait longer than one round for replies."""

    def late_replies(self, task: Task, rounds: int) -> Sequence[LateReply]:
        """The late replies to tasks of one kind that have arrived since this function was last
        called. Each reply is returned once.

        Args:
            task: any task of the kind.
            rounds: for the next task of this kind, how many rounds late a reply may be. The world
                drops later replies.
        """
        ...


def late_replies(world: World, task: Task, rounds: int) -> Sequence[LateReply]:
    """Late replies of a world to tasks of one kind. The result is empty if the world does not wait
    longer than a round.

    Args:
        world: the world.
        task: any task of the kind.
        rounds: for the next task of this kind, how many rounds late a reply may be.
    """
    return world.late_replies(task, rounds) if isinstance(world, WaitingWorld) else ()


@runtime_checkable
class EndingWorld(Protocol):
    """A world that can end a task before all clients have replied, and whose clients then go on
    with their work."""

    def end_after(self, replies: int) -> bool:
        """Let the next task end as soon as this number of clients have replied. Returns whether the
        world can do so."""
        ...

    def at_work(self, task: Task) -> Int[np.ndarray, "c"] | None:
        """The clients whose late replies to tasks of one kind may still come; None if the world
        cannot end a task early."""
        ...

    def wait(self) -> bool:
        """Wait a moment for late replies. Returns False if the round has no time left for that."""
        ...

    def wait_for_all(self) -> None:
        """Let the next task ask the clients that are still at work, too, and wait for them. Other
        tasks leave them out, unless too few others could reply."""
        ...


def ends_early(world: World, replies: int) -> bool:
    """Let a world's next task end as soon as some clients have replied.

    False if the world always waits for all replies, as a simulation does, where replies take no
    time.

    Args:
        world: the world.
        replies: the number of clients.
    """
    return isinstance(world, EndingWorld) and world.end_after(replies)


def clients_at_work(world: World, task: Task) -> Int[np.ndarray, "c"] | None:
    """The clients whose late replies may still come, as in ``EndingWorld.at_work``.

    None for a world that always waits for all replies.

    Args:
        world: the world.
        task: any task of the kind.
    """
    return world.at_work(task) if isinstance(world, EndingWorld) else None


def wait_for_late_replies(world: World) -> bool:
    """Wait a moment for late replies, as in ``EndingWorld.wait``.

    False for a world that always waits for all replies.

    Args:
        world: the world.
    """
    return isinstance(world, EndingWorld) and world.wait()


def wait_for_all_clients(world: World) -> None:
    """Let a world's next task wait for clients that are still at work, as in
    ``EndingWorld.wait_for_all``. All other worlds do so anyway.

    Args:
        world: the world.
    """
    if isinstance(world, EndingWorld):
        world.wait_for_all()
