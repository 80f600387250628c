"""Tiny detectors for tests, worked by hand: NumPy, float64. A score per sample, positive where it
sees its class.

The flat vector holds, layer after layer, the kernel [out, in] row by row and then the bias, as in
``numpy_reference``.
"""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from fedkin.core.training import LocalTraining
from fedkin.models import as_model
from fedkin.models.layers import Dense
from fedkin.models.model import Model
from tests.simulation import numpy_reference

HIDDEN = 4


class Linear(eqx.Module):
    """One layer."""

    head: Dense

    def __init__(self, features: int, key: Array) -> None:
        self.head = Dense(features, 1, key)

    def __call__(self, x: Array) -> Array:
        return self.head(x.reshape(len(x), -1))


class Small(eqx.Module):
    """One hidden layer of rectified units."""

    hidden: Dense
    head: Dense

    def __init__(self, features: int, key: Array) -> None:
        first, second = jax.random.split(key)
        self.hidden = Dense(features, HIDDEN, first)
        self.head = Dense(HIDDEN, 1, second)

    def __call__(self, x: Array) -> Array:
        return self.head(jax.nn.relu(self.hidden(x.reshape(len(x), -1))))


@cache
def linear(features: int = 6) -> Model:
    return as_model(lambda key: Linear(features, key), name="linear", batched=True, detects=True)


@cache
def small(features: int = 6) -> Model:
    return as_model(lambda key: Small(features, key), name="small", batched=True, detects=True)


def widths(model: Model, features: int = 6) -> tuple[int, ...]:
    return (features, 1) if model.name == "linear" else (features, HIDDEN, 1)


def scores(flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    return numpy_reference.forward(flat, widths, x)[-1][:, 0]


def loss_and_gradient(
    flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray, found: np.ndarray
) -> tuple[float, np.ndarray]:
    """Mean binary cross entropy of whether a sample is of the detector's class,
    and its gradient."""
    flat = flat.astype(np.float64)
    values = numpy_reference.forward(flat, widths, x)
    score = values[-1][:, 0]
    chance = 1 / (1 + np.exp(-score))
    loss = -np.mean(np.where(found, np.log(chance), np.log1p(-chance)))
    error = ((chance - found) / len(found))[:, None]
    net = numpy_reference.layers(flat, widths)
    parts = []
    for depth in reversed(range(len(net))):
        parts.append(np.concatenate([(error.T @ values[depth]).ravel(), error.sum(axis=0)]))
        error = (error @ net[depth][0]) * (values[depth] > 0)
    return float(loss), np.concatenate(parts[::-1])


def trained(
    start: np.ndarray,
    widths: tuple[int, ...],
    x: np.ndarray,
    found: np.ndarray,
    work: LocalTraining,
) -> tuple[np.ndarray, float, float]:
    """Update, last loss and first loss of a client whose batch holds all that it has."""
    start = start.astype(np.float64)
    w = start.copy()
    optimizer = numpy_reference.Optimizer(work, np.zeros(len(start)), np.zeros(len(start)))
    seen = []
    for _ in range(int(work.epochs)):
        loss, gradient = loss_and_gradient(w, widths, x, found)
        seen.append(loss)
        w = w + optimizer.move(gradient + work.mu * (w - start))
    return w - start, seen[-1], seen[0]
