"""All MNIST images, divided among clients with rotated images: the setting of PACFL's and CFL-GP's
runs here."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.image_files import IMAGES

FOUR = (0.0, 90.0, 180.0, 270.0)
PAIRS = (0.0, 15.0, 90.0, 105.0, 180.0, 195.0, 270.0, 275.0)  # four near pairs


def rotated_mnist(
    clients: int, angles: tuple[float, ...], seed: int, train: float = 0.7
) -> FederatedData:
    """Every image once, pixels 0 .. 1; client i has rotation i modulo their number. True clusters
    are the multiples of 90 degrees, each with the rotations up to 15 degrees above it.

    Args:
        clients: N.
        angles: in degrees.
        seed: of the division.
        train: share of each client's images that it trains on.
    """
    images = IMAGES["mnist"]()
    parts = np.array_split(np.random.default_rng(seed).permutation(len(images.y)), clients)
    x = images.unit(np.concatenate(parts)).reshape(-1, 28, 28)
    rows = np.split(np.arange(len(x)), np.cumsum([len(part) for part in parts])[:-1])
    for client, client_rows in enumerate(rows):
        x[client_rows] = rotate(x[client_rows], angles[client % len(angles)])
    cut = [int(train * len(client_rows)) for client_rows in rows]
    first = Ragged.of([client_rows[:c] for client_rows, c in zip(rows, cut, strict=True)])
    rest = Ragged.of([client_rows[c:] for client_rows, c in zip(rows, cut, strict=True)])
    truth = np.array([int(angles[client % len(angles)] // 90) for client in range(clients)])
    return FederatedData(
        name="mnist rotated",
        x=x.reshape(len(x), -1),
        y=images.y[np.concatenate(parts)],
        classes=10,
        train=first,
        test=rest,
        true_clusters=truth,
    )


def rotate(x: np.ndarray, angle: float) -> np.ndarray:
    """Images turned counterclockwise; by right angles without interpolation."""
    if angle % 90 == 0:
        return np.rot90(x, int(angle // 90), axes=(1, 2))
    return ndimage.rotate(x, angle, axes=(2, 1), reshape=False, order=1)
