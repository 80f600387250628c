"""Engines that take turns on the same work (A B A B ...), so that a slow spell affects all of them.
Needs no PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.work import CLASSES, Clients
from fedkin.data.federated import FederatedData, Ragged

Times = dict[str, np.ndarray]  # seconds of each turn, by engine
EPOCHS = {"784-10": 20, "784-128-10": 20, "CNN": 2}
MODEL = {"784-10": "mclr", "784-128-10": "mlp", "CNN": "cnn"}


def take_turns(
    engines: dict[str, Callable[[int], object]],
    turns: int,
    warm: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Seconds of each engine at each turn, after some turns that do not count (compilation,
    caches).

    Args:
        engines: called with the number of the turn.
        turns: that count.
        warm: that do not.
        clock: returns the time in seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(-warm, turns):
        for name, engine in engines.items():
            start_time = clock()
            engine(turn + warm)
            if turn >= 0:
                seconds[name].append(clock() - start_time)
    return {name: np.array(s) for name, s in seconds.items()}


def federated(data: Clients, test_share: float = 0.1) -> FederatedData:
    """The same samples as fedkin takes them; the last tenth of each client's serves as its test
    data too."""
    rows = [np.arange(a, b) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    test = [r[-max(1, round(test_share * len(r))) :] for r in rows]
    return FederatedData(
        name="benchmark",
        x=data.x,
        y=data.y,
        classes=CLASSES,
        train=Ragged.of(rows),
        test=Ragged.of(test),
    )


def quartiles(numbers: np.ndarray) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile."""
    low, middle, high = np.percentile(numbers, [25, 50, 75])
    return float(low), float(middle), float(high)
