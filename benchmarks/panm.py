"""The cost of PANM in simulation: a round of 100 peers against their local training alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.measure import simulated
from benchmarks.turns import Times, take_turns
from benchmarks.work import Clients, clients
from fedkin.core.randomness import Stream
from fedkin.methods import PANM
from fedkin.tasks.train import train

PEERS = 100
SAMPLES = 50


def equal_clients() -> Clients:
    """Clients of the same size."""
    data = clients(PEERS, SAMPLES)
    return Clients(data.x, data.y, np.arange(PEERS + 1) * SAMPLES)


def rounds(turns: int) -> Times:
    """One epoch of 784-128-10 for every peer; in PANM's rounds all also query ten others (l = 10, k
    = 5), compare models and updates, and average."""
    world, _ = simulated(equal_clients(), "784-128-10")
    world.work = replace(world.work, epochs=1)
    method = PANM(neighbours=5, candidates=10)
    all_clients = np.arange(PEERS)
    start = method.init(world, Stream(0))
    state = method.round(world, start, all_clients, Stream(0, 1))

    def panm(turn: int) -> None:
        method.round(world, state, all_clients, Stream(0, turn))

    def training(turn: int) -> None:
        train(world, state.models, all_clients, all_clients, stream=Stream(0, turn))

    return take_turns({"PANM": panm, "training": training}, turns)


def everything(turns: int) -> dict[str, Times]:
    """PANM's round and training alone."""
    return {"panm": rounds(2 * turns)}
