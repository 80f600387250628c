"""A plain loop over clients by hand in NumPy, for softmax regression 784-10. Flower's clients run
it too."""

from __future__ import annotations

import numpy as np

from benchmarks.work import BATCH, CLASSES, LR, Clients


def train_client(
    w: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    epochs: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mini-batch SGD on the cross entropy: new weights and bias.

    Args:
        w: weights [784 10].
        b: bias [10].
        x: samples [n 784].
        y: labels [n].
        epochs: over the samples.
        rng: for the order of samples.
    """
    w = w.copy()
    b = b.copy()
    target = np.eye(CLASSES, dtype=np.float32)[y]
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for start in range(0, len(y), BATCH):
            rows = order[start : start + BATCH]
            xb = x[rows]
            scores = xb @ w + b
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p -= target[rows]
            p *= LR / len(rows)
            w -= xb.T @ p
            b -= p.sum(axis=0)
    return w, b


def round_of(
    data: Clients, cohort: np.ndarray, w: np.ndarray, b: np.ndarray, epochs: int, seed: int
) -> tuple:
    """FedAvg over a cohort: the new weights and bias.

    Args:
        data: of all clients.
        cohort: clients of the round.
        w: weights [784 10].
        b: bias [10].
        epochs: of local training.
        seed: of the order of samples.
    """
    rng = np.random.default_rng(seed)
    share = data.sizes[cohort] / data.sizes[cohort].sum()
    new = [train_client(w, b, *data[c], epochs, rng) for c in cohort]
    return tuple(
        sum(s * part[i] for s, part in zip(share, new, strict=True)).astype(np.float32)
        for i in (0, 1)
    )
