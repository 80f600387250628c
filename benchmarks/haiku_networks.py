"""The networks of ``benchmarks/torch_loop.py`` for Haiku, with which FedJAX works."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax

from benchmarks.work import CLASSES


def forward_pass(name: str) -> Callable[..., Any]:
    """A function from a batch to scores.

    Args:
        name: of the network.
    """

    def scores(batch: Any, train: bool = True) -> Any:
        x = batch["x"]
        if name == "784-10":
            return hk.Linear(CLASSES)(x)
        if name == "FEMNIST's CNN":
            return femnist_cnn(x, train)
        if name == "CNN":
            return mnist_cnn(x, train)
        return hk.Linear(CLASSES)(jax.nn.relu(hk.Linear(int(name.split("-")[1]))(x)))

    return scores


def mnist_cnn(x: Any, train: bool) -> Any:
    """Two convolutions, 50,186 parameters."""
    x = x.reshape(-1, 28, 28, 1)
    for outputs in (32, 64):
        x = jax.nn.relu(hk.Conv2D(outputs, 3)(x))
        x = hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return hk.Linear(CLASSES)(_dropout(x.reshape(len(x), -1), 0.5, train))


def femnist_cnn(x: Any, train: bool) -> Any:
    """Six convolutions and two dense layers, 325,578 parameters."""
    x = x.reshape(-1, 28, 28, 1)
    for outputs in (32, 64):
        x = jax.nn.relu(hk.Conv2D(outputs, 3, padding="VALID")(x))
        x = jax.nn.relu(hk.Conv2D(outputs, 3, padding="VALID")(x))
        x = _dropout(jax.nn.relu(hk.Conv2D(outputs, 5, stride=2)(x)), 0.4, train)
    x = _dropout(jax.nn.relu(hk.Linear(128)(x.reshape(len(x), -1))), 0.4, train)
    return hk.Linear(CLASSES)(x)


def _dropout(x: Any, rate: float, train: bool) -> Any:
    """Dropout in training only."""
    return hk.dropout(hk.next_rng_key(), rate, x) if train else x
