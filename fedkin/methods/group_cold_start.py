"""First part of the group cold start of FedGroup and FlexCFL: some clients train from the initial
model and send their updates, from which each method forms its groups.

Source: Alg. 3, l. 2-6 of both papers. Shapes: a clients whose updates are used, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.tasks.train import train


@dataclass(frozen=True)
class GroupColdStart:
    """The result of a group cold start, before the groups get models."""

    start: Float[np.ndarray, "P"]  # w_0
    clients: Int[np.ndarray, "a"]  # clients that sent a nonzero update
    updates: Float[np.ndarray, "a P"]
    groups: Int[np.ndarray, "a"]  # group of each of these clients


@runtime_checkable
class ColdStarting(Protocol):
    """A method with a group cold start."""

    def cold_start(self, world: World, stream: Stream) -> GroupColdStart:
        """First updates of some clients, and the groups of these clients."""
        ...

    def embedding(self, updates: Float[np.ndarray, "a P"]) -> Float[np.ndarray, "a m"]:
        """The points that are clustered, one row for each update."""
        ...


def sampled_updates(
    world: World,
    method: Any,
    start: Float[np.ndarray, "P"],
    work: LocalTraining,
    stream: Stream,
) -> tuple[Int[np.ndarray, "a"], Float[np.ndarray, "a P"]]:
    """First updates of alpha m random clients; of m clients if they are to be the groups' centers.

    Args:
        world, stream: clients and random numbers of the round.
        method: a method with the fields ``clusters`` (m), ``alpha`` and ``centers``.
        start: w_0, the model from which the clients train.
        work: training of the clients.

    Returns:
        The clients that sent a nonzero update, and their updates.

    Raises:
        MethodError: there are fewer clients, or fewer nonzero updates, than clusters.
    """
    reachable = world.clients(stream.round)
    if method.clusters > len(reachable):
        raise MethodError(
            f"{method.clusters} clusters need at least as many clients, got {len(reachable)}; "
            "lower method.clusters"
        )
    per_group = 1 if method.centers == "random" else method.alpha
    asked = min(per_group * method.clusters, len(reachable))
    sample = stream.child("pretrain").rng().choice(reachable, asked, replace=False)
    sample.sort()
    clients, updates = first_updates(world, start, clients=sample, work=work, stream=stream)
    if len(clients) < method.clusters:
        raise MethodError(
            f"cold start of {method.clusters} clusters: only {len(clients)} of {len(sample)} "
            "clients sent an update; lower method.clusters, or raise method.alpha, so that more "
            "clients are asked"
        )
    return clients, updates


def first_updates(
    world: World,
    start: Float[np.ndarray, "P"],
    clients: Int[np.ndarray, "c"],
    work: LocalTraining,
    stream: Stream,
) -> tuple[Int[np.ndarray, "a"], Float[np.ndarray, "a P"]]:
    """The clients that sent a nonzero update, and their updates. A zero update has no direction.

    Args:
        world, stream: clients and random numbers of the round.
        start: the model from which the clients train.
        clients: clients that are asked.
        work: training of the clients.
    """
    reply = train(
        world,
        start[None],
        clients,
        np.zeros(len(clients), np.int64),
        work=work,
        stream=stream.child("pretrain"),
    )
    usable = reply.arrived & reply.update.any(axis=1)
    return clients[usable], reply.update[usable]
