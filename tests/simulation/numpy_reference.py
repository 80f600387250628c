"""Reference implementation of local training: NumPy, float64, gradients by hand, one client at a
time.

A network is its widths: (6, 3) is logistic regression, (6, 8, 3) has one hidden layer of rectified
units. Its flat vector holds, layer after layer, the kernel [out, in] row by row and then the bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedkin.core.training import LocalTraining

Layer = tuple[np.ndarray, np.ndarray]


def layers(flat: np.ndarray, widths: tuple[int, ...]) -> list[Layer]:
    """Kernel and bias of each layer, as views of the flat vector."""
    found = []
    at = 0
    for inputs, outputs in pairwise(widths):
        kernel = flat[at : at + inputs * outputs].reshape(outputs, inputs)
        at += inputs * outputs
        found.append((kernel, flat[at : at + outputs]))
        at += outputs
    assert at == len(flat)
    return found


def forward(flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray) -> list[np.ndarray]:
    """What enters each layer, and at the end the scores."""
    values = [x.reshape(len(x), widths[0]).astype(np.float64)]
    net = layers(flat.astype(np.float64), widths)
    for depth, (kernel, bias) in enumerate(net):
        out = values[-1] @ kernel.T + bias
        values.append(out if depth == len(net) - 1 else np.maximum(out, 0))
    return values


def log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def cross_entropy(flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray, y: np.ndarray) -> float:
    """Mean over the samples, without a penalty."""
    return float(-log_softmax(forward(flat, widths, x)[-1])[np.arange(len(y)), y].mean())


def correct(flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray, y: np.ndarray) -> int:
    return int((forward(flat, widths, x)[-1].argmax(axis=1) == y).sum())


def loss_and_gradient(
    flat: np.ndarray, widths: tuple[int, ...], x: np.ndarray, y: np.ndarray, l2: float = 0.0
) -> tuple[float, np.ndarray]:
    """Mean cross entropy plus l2 times the squared kernels, and its gradient."""
    flat = flat.astype(np.float64)
    values = forward(flat, widths, x)
    error = (np.exp(log_softmax(values[-1])) - np.eye(widths[-1])[y]) / len(y)
    net = layers(flat, widths)
    parts = []
    for depth in reversed(range(len(net))):
        kernel, _ = net[depth]
        parts.append(
            np.concatenate([(error.T @ values[depth] + 2 * l2 * kernel).ravel(), error.sum(axis=0)])
        )
        error = (error @ kernel) * (values[depth] > 0)
    penalty = l2 * sum(float((kernel**2).sum()) for kernel, _ in net)
    return cross_entropy(flat, widths, x, y) + penalty, np.concatenate(parts[::-1])


@dataclass
class Optimizer:
    """SGD with momentum (velocity = momentum * velocity + gradient), or Adam as in its paper's
    Algorithm 1."""

    work: LocalTraining
    velocity: np.ndarray
    square: np.ndarray
    time: int = 0

    def move(self, gradient: np.ndarray) -> np.ndarray:
        if self.work.optimizer == "sgd":
            self.velocity = self.work.momentum * self.velocity + gradient
            return -self.work.lr * self.velocity
        self.time += 1
        self.velocity = 0.9 * self.velocity + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean = self.velocity / (1 - 0.9**self.time)
        spread = self.square / (1 - 0.999**self.time)
        return -self.work.lr * mean / (np.sqrt(spread) + 1e-8)


def train(
    start: np.ndarray,
    widths: tuple[int, ...],
    x: np.ndarray,
    y: np.ndarray,
    batches: list[np.ndarray],
    per_epoch: int,
    work: LocalTraining,
    l2: float = 0.0,
) -> tuple[np.ndarray, float, float]:
    """One client's update, and its mean loss per sample over the last and over the first
    ``per_epoch`` batches."""
    start = start.astype(np.float64)
    w = start.copy()
    optimizer = Optimizer(work, np.zeros(len(start)), np.zeros(len(start)))
    seen = []
    for batch in batches:
        loss, gradient = loss_and_gradient(flat=w, widths=widths, x=x[batch], y=y[batch], l2=l2)
        seen.append((loss, len(batch)))
        w = w + optimizer.move(gradient + work.mu * (w - start))
    return w - start, mean_loss(seen[-per_epoch:]), mean_loss(seen[:per_epoch])


def mean_loss(seen: list[tuple[float, int]]) -> float:
    return sum(loss * count for loss, count in seen) / sum(count for _, count in seen)
