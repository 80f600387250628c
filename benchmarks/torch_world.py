"""The cost of a PyTorch model in fedkin's PyTorch world, compared with the same network in the
compiled simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import torch_loop
from benchmarks.measure import fedkin_round
from benchmarks.turns import EPOCHS, Times, federated, take_turns
from benchmarks.work import BATCH, LR, clients
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.torch import torch_model
from fedkin.tasks.train import train

NETWORKS = ("784-10", "784-128-10")


def torch_world_round(name: str) -> Callable[[int], object]:
    """A FedAvg round of 20 clients, each with one thread."""
    data = federated(clients(20))
    model = torch_model(lambda: torch_loop.network(name), name=name)
    world = SimulatedWorld(data, model, LocalTraining(epochs=EPOCHS[name], batch_size=BATCH, lr=LR))
    start = world.initial(Stream(0))[None]
    all_clients = np.arange(20)
    zeros = np.zeros(20, np.int64)
    return lambda turn: train(world, start, all_clients, zeros, reduce=True, stream=Stream(0, turn))


def rounds(name: str, turns: int) -> Times:
    """The two worlds in turn."""
    engines = {"fedkin": fedkin_round(clients(20), name), "PyTorch world": torch_world_round(name)}
    return take_turns(engines, turns)


def everything(turns: int) -> dict[str, Times]:
    """Both networks."""
    return {f"torch world, {name}": rounds(name, min(turns, 7)) for name in NETWORKS}


if __name__ == "__main__":
    from benchmarks.report import torch_world_rows
    from fedkin.models.model import prepare_jax

    prepare_jax()
    print("\n".join(torch_world_rows(everything(7))))
