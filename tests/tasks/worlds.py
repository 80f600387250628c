"""Worlds in which every task must give the same: one line for each, in ``WORLDS``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.data.federated import FederatedData
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.classes import Classes
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import node_of, remote

WORK = LocalTraining(epochs=2, batch_size=5, lr=0.1)
PREFIX = "clients/"


class Opened(NamedTuple):
    """A world, and where its clients' memory is."""

    world: World
    # Columns [N ...], and which rows are kept (``.kept``).
    memory: Callable[[], dict[str, np.ndarray]]


class Kind(NamedTuple):
    """A kind of world.

    Attributes:
        open: opens one with these clients and this model, in its first round.
        peers: whether it runs tasks between peers, and those whose models stay where they are.
        skips: models that are not tried in it.
    """

    open: Callable[[FederatedData, AnyModel], AbstractContextManager[Opened]]
    peers: bool = True
    skips: frozenset[str] = frozenset()


@contextmanager
def simulated(
    data: FederatedData,
    model: AnyModel,
    compiled: bool = True,
    population: Population | None = None,
    **options: Any,
) -> Iterator[Opened]:
    """The simulator."""
    world = SimulatedWorld(data, model, WORK, compiled=compiled, population=population, **options)
    yield Opened(world, world.memory)


@contextmanager
def over_messages(
    data: FederatedData, model: AnyModel, groups: Sequence[Sequence[int]] | None = None
) -> Iterator[Opened]:
    """Nodes of some clients each, by default of one, behind a server: every message is encoded and
    decoded, and every request meets a node as its disk tells it."""
    transport = MemoryTransport()
    run = "conformance"
    own = [[client] for client in range(data.clients)] if groups is None else groups
    nodes = [node_of(f"site-{number}", clients, data, model) for number, clients in enumerate(own)]
    for number, node in enumerate(nodes):
        transport.join(number, node)
    world = remote(transport=transport, data=data, model=model, work=WORK, run=run)
    world.begin(Stream(3, 1, "scenario"))

    def memory() -> dict[str, np.ndarray]:
        world.run(Classes(), np.arange(data.clients))  # with it clients get waiting messages
        columns: dict[str, np.ndarray] = {}
        for clients, node in zip(own, nodes, strict=True):
            for name, kept in node.disk.load_memory(run).items():
                # In front of a column. Kept messages and last replies have other names.
                if name.startswith(PREFIX):
                    columns.setdefault(name, np.zeros((data.clients, *kept.shape[1:]), kept.dtype))[
                        clients
                    ] = kept
        return columns

    yield Opened(world, memory)


REFERENCE = Kind(simulated)
WORLDS: dict[str, Kind] = {
    "client by client": Kind(partial(simulated, compiled=False)),
    # A node's batches are as wide as its largest client needs, and the masks of dropout are drawn
    # for the whole width: a client that has less than a batch gets other masks alone than among
    # clients that have more.
    "nodes of one client": Kind(over_messages, peers=False, skips=frozenset({"dropout"})),
    "a node of all clients": Kind(partial(over_messages, groups=[range(5)]), peers=False),
}
