"""Measurements of fedkin's engine compared with other engines on the same work."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks import numpy_loop, torch_loop
from benchmarks.turns import EPOCHS, MODEL, Times, federated, take_turns
from benchmarks.work import BATCH, CLASSES, FEATURES, LR, Clients, clients
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models import MODELS, Model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import train

THREADS = torch.get_num_threads()
FLOWER = Path(".venv/flower/bin")


def simulated(data: Clients, name: str) -> tuple[SimulatedWorld, np.ndarray]:
    """fedkin's world for a model, and one start model [1 P]."""
    federation = federated(data)
    model: Model = MODELS[MODEL[name]](federation)
    world = SimulatedWorld(
        federation, model, LocalTraining(epochs=EPOCHS[name], batch_size=BATCH, lr=LR)
    )
    return world, world.initial(Stream(0))[None]


def fedkin_round(data: Clients, name: str) -> Callable[[int], object]:
    """A round in fedkin's simulator."""
    world, start = simulated(data, name)
    all_clients = np.arange(len(data))
    zeros = np.zeros(len(data), np.int64)
    return lambda turn: train(world, start, all_clients, zeros, reduce=True, stream=Stream(0, turn))


def torch_round(data: Clients, name: str, threads: int) -> Callable[[int], object]:
    """A round of the plain PyTorch loop.

    Args:
        data: of the clients.
        name: of the model.
        threads: of PyTorch.
    """
    torch.manual_seed(0)
    network = torch_loop.network(name)
    tensors = torch_loop.tensors(data)

    def turn(_: int) -> None:
        torch.set_num_threads(threads)
        torch_loop.round_of(network, tensors, EPOCHS[name])

    return turn


def numpy_round(data: Clients) -> Callable[[int], object]:
    """A round of the plain NumPy loop."""
    w = np.zeros((FEATURES, CLASSES), np.float32)
    b = np.zeros(CLASSES, np.float32)
    return lambda turn: numpy_loop.round_of(
        data=data, cohort=np.arange(len(data)), w=w, b=b, epochs=EPOCHS["784-10"], seed=turn
    )


def local_training(name: str, turns: int) -> Times:
    """One round of 20 clients."""
    data = clients(20)
    engines = {
        "fedkin": fedkin_round(data, name),
        "PyTorch loop, 1 thread": torch_round(data, name, 1),
    }
    if THREADS > 1:
        engines[f"PyTorch loop, {THREADS} threads"] = torch_round(data, name, THREADS)
    if name == "784-10":
        engines["NumPy loop"] = numpy_round(data)
    return take_turns(engines, turns)


def flower(turns: int, rounds: int) -> Times:
    """Rounds of 20 out of 100 clients; each turn is a whole Flower job, and its first two rounds do
    not count."""
    world, start = simulated(clients(100), "784-10")
    zeros = np.zeros(20, np.int64)

    def job(seed: int) -> float:
        seconds = []
        for r in range(rounds):
            start_time = time.perf_counter()
            cohort = np.sort(np.random.default_rng(r).choice(100, 20, replace=False))
            train(world, start, cohort, zeros, reduce=True, stream=Stream(seed, r))
            seconds.append(time.perf_counter() - start_time)
        return float(np.median(seconds[2:]))

    pairs = [(flower_job(rounds), job(turn)) for turn in range(turns)]
    return {
        "Flower simulation": np.array([f for f, _ in pairs]),
        "fedkin": np.array([f for _, f in pairs]),
    }


def flower_job(rounds: int) -> float:
    """Median seconds of a round of a new Flower simulation, offline in a separate environment."""
    quiet = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    # Start a new cluster, because another program may have left an address in the environment.
    quiet["RAY_ADDRESS"] = "local"
    place = {
        "FLWR_HOME": str(FLOWER.parent.resolve() / "home"),
        "PATH": f"{FLOWER.resolve()}:{os.environ['PATH']}",
    }
    command = [
        str(FLOWER / "python"),
        "-m",
        "benchmarks.flower_peer",
        str(rounds),
        str(EPOCHS["784-10"]),
    ]
    done = subprocess.run(
        command, env={**os.environ, **quiet, **place}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Flower's simulation failed:\n{done.stderr[-2000:]}")
    return float(np.median(json.loads(done.stdout.splitlines()[-1])["seconds"][2:]))


def evaluation(turns: int) -> Times:
    """Scoring 1,000 MNIST-shaped clients against training a cohort of 20 of them, in turn, as in a
    run; the same with a sample of 300 clients; and the matrix product of all test samples with one
    layer, a lower bound for scoring."""
    world, start = simulated(clients(1000, mean=69), "784-10")
    all_clients = np.arange(1000)
    zeros = np.zeros(1000, np.int64)
    cohorts = [
        np.sort(np.random.default_rng(r).choice(1000, 20, replace=False)) for r in range(turns + 5)
    ]
    # A world keeps the samples of its last scoring on the device.
    apart, _ = simulated(clients(1000, mean=69), "784-10")
    sample = np.sort(np.random.default_rng(0).choice(1000, 300, replace=False))
    test = world.data.test.select(all_clients).rows
    samples = jnp.asarray(world.data.x[test].reshape(len(test), -1))
    layer = jnp.ones((784, 10), jnp.float32)
    product = jax.jit(jnp.matmul)
    operations = {
        "training a round": lambda t: train(
            world, start, cohorts[t], zeros[:20], reduce=True, stream=Stream(0, t)
        ),
        "evaluating 1,000 clients": lambda t: evaluate(world, start, all_clients, zeros),
        "evaluating 300 of them": lambda t: evaluate(apart, start, sample, zeros[:300]),
        "their product": lambda t: product(samples, layer).block_until_ready(),
    }
    return take_turns(operations, turns, 5)


def matrix_product(turns: int, side: int = 2048) -> dict[str, float]:
    """GFLOP/s of a large float32 matrix product, the best of some turns: the machine's limit."""
    a = np.random.default_rng(0).random((side, side), np.float32)
    on_device = jnp.asarray(a)
    product = jax.jit(jnp.matmul)
    engines = {
        "JAX": lambda _: product(on_device, on_device).block_until_ready(),
        "NumPy": lambda _: a @ a,
    }
    return {name: 2e-9 * side**3 / s.min() for name, s in take_turns(engines, turns).items()}
