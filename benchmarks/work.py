"""The work that every engine is given: the same clients, the same sizes, the same number of steps.
NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEATURES = 784
CLASSES = 10
BATCH = 10
LR = 0.03


@dataclass(frozen=True)
class Clients:
    """MNIST-shaped flat samples; client i has the rows ``offsets[i]`` to ``offsets[i + 1]``."""

    x: np.ndarray  # float32 [M 784]
    y: np.ndarray  # int64 [M]
    offsets: np.ndarray  # int64 [N + 1]

    def __getitem__(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(self.offsets[client], self.offsets[client + 1])
        return self.x[rows], self.y[rows]

    @property
    def sizes(self) -> np.ndarray:
        """Samples of each client."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


def clients(count: int, mean: int = 60, seed: int = 0) -> Clients:
    """Clients with log-normal sizes (sigma 0.5) and labels that can be learned.

    Args:
        count: number of clients.
        mean: exact mean number of samples.
        seed: of sizes and samples.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(0, 0.5, count)
    sizes = np.maximum(BATCH, np.round(sizes * mean / sizes.mean())).astype(np.int64)
    sizes[np.argmax(sizes)] += mean * count - sizes.sum()
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    y = rng.integers(0, CLASSES, offsets[-1])
    centres = rng.random((CLASSES, FEATURES))
    x = (centres[y] + 0.3 * rng.random((len(y), FEATURES))).astype(np.float32)
    return Clients(x, y, offsets)


def steps(sizes: np.ndarray, epochs: int) -> int:
    """Mini-batches of these clients together; the last one of an epoch may be short."""
    return int(epochs * np.sum(-(-sizes // BATCH)))


def flops_per_sample(model: str) -> float:
    """Floating-point operations of one sample's training step, in the matrix products and
    convolutions.

    A multiply-add counts as two. Forward pass, gradient of the weights and gradient of the input
    have the same cost. The first layer needs no gradient of its input.
    """
    layers = {
        "784-10": [784 * 10],
        "784-128-10": [784 * 128, 128 * 10],
        "CNN": [28 * 28 * 9 * 32, 14 * 14 * 9 * 32 * 64, 7 * 7 * 64 * 10],
        "FEMNIST's CNN": [
            26 * 26 * 9 * 32,
            24 * 24 * 9 * 32 * 32,
            12 * 12 * 25 * 32 * 32,
            10 * 10 * 9 * 32 * 64,
            8 * 8 * 9 * 64 * 64,
            4 * 4 * 25 * 64 * 64,
            1024 * 128,
            128 * 10,
        ],
        "FashionMNIST's CNN": [
            28 * 28 * 25 * 32,
            14 * 14 * 25 * 32 * 64,
            7 * 7 * 64 * 1024,
            1024 * 10,
        ],
    }[model]
    return 2.0 * (2 * layers[0] + 3 * sum(layers[1:]))
