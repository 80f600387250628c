"""Speed of a round of linear regression on 1,000 clients against a round of classification of the
same shape, side by side in one process.

    python -m benchmarks.number_rounds
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import train

CLIENTS = 1000
SAMPLES = 40
FEATURES = 30
WORK = fk.LocalTraining(epochs=1, batch_size=10, lr=0.05)
TURNS = 9


def federation(task: str | None) -> FederatedData:
    """1,000 clients with 40 samples of 30 features; two classes, or numbers, or counts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * SAMPLES, FEATURES)).astype(np.float32)
    score = x[:, 0] + 0.5 * rng.normal(size=len(x))
    owner = np.repeat(np.arange(CLIENTS), SAMPLES)
    if task is None:
        return fk.data.from_arrays(x, (score > 0).astype(int), clients=owner)
    y = score if task == "regression" else rng.poisson(np.exp(0.3 * score)).astype(float)
    return fk.data.from_arrays(x, y, clients=owner, task=task)


def round_of(world: SimulatedWorld, start: Any, number: int) -> float:
    """Seconds of one round: local training of all clients, and evaluation."""
    everyone = np.arange(CLIENTS)
    index = np.zeros(CLIENTS, np.int64)
    begin = time.perf_counter()
    reply = train(
        world, start, everyone, index, work=WORK, reduce=True, stream=Stream(0, number, "bench")
    )
    evaluate(world, start + reply.update, everyone, index)
    return time.perf_counter() - begin


def main() -> None:
    """Median seconds of a round by task, in turns, and the ratio to classification."""
    worlds = {}
    for task in (None, "regression", "count"):
        data = federation(task)
        worlds[task or "classification"] = SimulatedWorld(data, fk.models.mclr(data), WORK)
    starts = {name: world.initial(Stream(0))[None] for name, world in worlds.items()}
    seconds: dict[str, list[float]] = {name: [] for name in worlds}
    for turn in range(1, TURNS + 2):
        for name, world in worlds.items():
            seconds[name].append(round_of(world, starts[name], turn))
    # The first turn compiles programs.
    medians = {name: float(np.median(values[1:])) for name, values in seconds.items()}
    for name, median in medians.items():
        ratio = median / medians["classification"]
        print(f"{name}: {1000 * median:.1f} ms a round, {ratio:.2f} of classification", flush=True)


if __name__ == "__main__":
    main()
