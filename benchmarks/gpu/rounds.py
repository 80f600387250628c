"""(a) Rounds by the number of lanes, compared with a PyTorch loop and ``torch.compile`` on the same
device, and with fedkin on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.errors import JaxRuntimeError

from benchmarks.gpu.size import FULL, Size
from benchmarks.turns import MODEL, federated, take_turns
from benchmarks.work import BATCH, LR, clients
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import MODELS
from fedkin.models.model import prepare_jax
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.device_trial import no_memory
from fedkin.tasks.train import train

Engine = Callable[[int], object]
LOOP = "PyTorch loop"
COMPILED = "torch.compile"
COHORTS = 2  # different cohorts, in turn
LOW = "bfloat16"  # with the largest number of lanes


def measure(name: str, size: Size) -> dict[str, Any]:
    """Seconds of the turns of each engine. A number of lanes without memory has a text instead.

    Args:
        name: of the network.
        size: of the measurement.
    """
    engines = {str(lanes): fedkin_round(name, size, lanes) for lanes in size.lanes}
    engines[LOW] = fedkin_round(name, size, size.lanes[-1], precision=LOW)
    engines |= torch_rounds(name, size)
    running, faults = split(engines)
    seconds = take_turns(running, size.turns, warm=COHORTS)
    return {**{engine: took.tolist() for engine, took in seconds.items()}, **faults}


def split(engines: dict[str, Engine]) -> tuple[dict[str, Engine], dict[str, str]]:
    """The engines that run, and the faults of those for which the device has too little memory.

    The first call of an engine also compiles.
    """
    running = {}
    faults = {}
    for name, engine in engines.items():
        try:
            engine(0)
        except JaxRuntimeError as error:
            if no_memory(error) is None:
                raise
            faults[name] = "too little memory"
        else:
            running[name] = engine
    return running, faults


def world_of(name: str, size: Size, lanes: int, precision: str | None = None) -> SimulatedWorld:
    """A world of MNIST-shaped clients.

    Args:
        name: of the network.
        size: of the measurement.
        lanes: clients that train in parallel.
        precision: of the network's arithmetic; None for float32.
    """
    data = federated(clients(size.clients))
    local = LocalTraining(epochs=size.epochs[name], batch_size=BATCH, lr=LR, precision=precision)
    return SimulatedWorld(data, MODELS[MODEL[name]](data), local, clients_per_batch=lanes)


def fedkin_round(name: str, size: Size, lanes: int, precision: str | None = None) -> Engine:
    """A round in fedkin's simulator, with another cohort in each turn.

    Args:
        name: of the network.
        size: of the measurement.
        lanes: clients that train in parallel.
        precision: of the network's arithmetic; None for float32.
    """
    world = world_of(name, size, lanes, precision)
    start = world.initial(Stream(0))[None]
    zeros = np.zeros(size.cohort, np.int64)
    return lambda turn: train(
        world, start, cohort(size, turn), zeros, reduce=True, stream=Stream(0, turn)
    )


def cohort(size: Size, turn: int) -> np.ndarray:
    """Clients of a turn, the same for every engine. There are few cohorts, so that the programs for
    their sizes are compiled in the turns that do not count."""
    drawn = np.random.default_rng(turn % COHORTS).choice(size.clients, size.cohort, replace=False)
    return np.sort(drawn)


def torch_rounds(name: str, size: Size) -> dict[str, Engine]:
    """Rounds of the plain PyTorch loop on the same device, and of the same loop with a compiled
    network. They train a part of the cohort. Empty without PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    from benchmarks import torch_loop

    place = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    data = [(x.to(place), y.to(place)) for x, y in torch_loop.tensors(clients(size.clients))]
    plain = torch_loop.network(name).to(place)
    compiled: Any = torch.compile(torch_loop.network(name).to(place), backend=size.compiler)

    def engine(network: Any) -> Engine:
        def turn(number: int) -> None:
            members = np.random.default_rng(number % COHORTS).permutation(cohort(size, number))
            part = [data[client] for client in members[: size.of_loop]]
            torch_loop.round_of(network, part, size.epochs[name])
            if place == "cuda":
                torch.cuda.synchronize()

        return turn

    return {LOOP: engine(plain), COMPILED: engine(compiled)}


def measure_on_cpu(names: Iterable[str], size: Size) -> dict[str, Any]:
    """Seconds of the same rounds with fedkin on the CPU, one client after another. A process that
    sees no accelerator measures them."""
    if size.small:
        return {name: on_cpu(name, size) for name in names}
    command = [sys.executable, "-m", "benchmarks.gpu.rounds", *names]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def on_cpu(name: str, size: Size) -> list[float]:
    """Seconds of the turns on the CPU."""
    turns = take_turns({"CPU": fedkin_round(name, size, lanes=1)}, size.turns, warm=COHORTS)
    return turns["CPU"].tolist()


if __name__ == "__main__":
    prepare_jax()
    print(json.dumps({name: on_cpu(name, FULL) for name in sys.argv[1:]}))
