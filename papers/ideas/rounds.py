"""A method's states, round by round, for pictures that show more than a run's records hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from fedkin.core.method import UNASSIGNED, Method
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.reporting.style import prepare
from fedkin.tasks.train import train

SEED = 0
START = Stream(SEED, 0, "method/init")


def states(world: World, method: Method, rounds: int, cohort: int) -> Iterator[Any]:
    """The states of a method after its start and after each round.

    Args:
        world: the clients.
        method: the method.
        rounds: number of rounds after the start.
        cohort: clients of a round, drawn uniformly.
    """
    world.begin(Stream(SEED, 0, "scenario"))
    state = method.init(world, START)
    yield state
    for round in range(1, rounds + 1):
        stream = Stream(SEED, round, "method/round")
        world.begin(Stream(SEED, round, "scenario"))
        reachable = world.clients(round)
        clients = np.sort(stream.child("cohort").rng().choice(reachable, cohort, replace=False))
        newcomers = clients[state.assignment[clients] == UNASSIGNED]
        if len(newcomers):
            state = method.place(world, state, newcomers, stream.child("place"))
        state = method.round(world, state, clients, stream)
        yield state


def first_updates(
    world: World, start: Float[np.ndarray, "P"], work: LocalTraining
) -> Float[np.ndarray, "N P"]:
    """The update of every client after pre-training from w_0.

    FedGroup's and FlexCFL's cold starts train with the same random numbers, so that their clients
    have these updates too.

    Args:
        world: the clients.
        start: w_0.
        work: settings of the pre-training.
    """
    clients = np.arange(world.total_clients)
    reply = train(
        world,
        start[None],
        clients,
        np.zeros(len(clients), np.int64),
        work=work,
        stream=START.child("pretrain"),
    )
    return reply.update


def one_epoch(work: LocalTraining) -> LocalTraining:
    """FedGroup's pre-training."""
    return replace(work, epochs=1, steps=None)


def by_cluster(labels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Rows in the order of their clusters."""
    return np.argsort(labels, kind="stable")


def image_panel(axes: Axes, heading: str, note: str) -> None:
    """A panel for a matrix: a heading and a note, without a grid."""
    prepare(axes, heading, note)
    axes.grid(False)
