"""A small federation with clients of very different sizes, for the simulator's tests."""

from __future__ import annotations

import numpy as np

from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.simulation.workers import AnyModel

# Around the batch size of 10: below, equal, above, no multiple, one sample.
SIZES = (1, 2, 7, 10, 23, 64, 130)
EVERYONE = np.arange(len(SIZES))


def federation(
    sizes: tuple[int, ...] = SIZES,
    test_sizes: tuple[int, ...] | None = None,
    features: int = 6,
    classes: int = 3,
    seed: int = 0,
) -> FederatedData:
    """Clients of given sizes; each owns rows from all over the flat arrays, and its own drift of
    the features."""
    test_sizes = test_sizes or tuple(max(1, n // 3) for n in sizes)
    rng = np.random.Generator(np.random.PCG64(seed))
    total = sum(sizes) + sum(test_sizes)
    parts = np.split(rng.permutation(total), np.cumsum(sizes + test_sizes)[:-1])
    x = rng.normal(size=(total, features)).astype(np.float32)
    y = rng.integers(classes, size=total)
    for client, rows in enumerate(parts):
        x[rows] += np.float32(0.3 * (client % len(sizes)))
    train = Ragged.of(parts[: len(sizes)])
    test = Ragged.of(parts[len(sizes) :])
    return FederatedData(name="small", x=x, y=y, classes=classes, train=train, test=test)


def samples(
    data: FederatedData, client: int, split: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """What one client has."""
    rows = data.part(split)[int(client)]
    return data.x[rows], data.y[rows]


def models(model: AnyModel, count: int = 2) -> np.ndarray:
    """Different models; biases moved away from their zeros too."""
    drawn = [model.initial(Stream(9, k, "models").words()) for k in range(count)]
    noise = Stream(9, 0, "noise").rng().normal(scale=0.1, size=(count, model.spec.parameters))
    return np.stack(drawn) + noise.astype(np.float32)
