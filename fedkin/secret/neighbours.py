"""The graph of clients that mask with each other, and hold each other's shares: about 20 neighbours
of each (Bell et al. 2020, SecAgg+).

Shapes: n clients of a sum, G holders of each client's shares, itself among them.
"""

from __future__ import annotations

import secrets

import numpy as np
from jaxtyping import Int


def ring_size(neighbours: int) -> int:
    """Holders of each client's shares, itself among them, where there are more clients.

    Args:
        neighbours: about how many; half of them on each side.
    """
    return 2 * max(1, neighbours // 2) + 1


def holders(clients: int, neighbours: int) -> Int[np.ndarray, "n G"]:
    """Each client and its neighbours, by position: all others, or those that are next to it on a
    ring in random order.

    Neighbours are mutual. The order is of the operating system's randomness, so that neighbours
    cannot be chosen from outside.

    Args:
        clients: n.
        neighbours: about how many; half of them on each side.
    """
    size = ring_size(neighbours)
    if size >= clients:
        return np.tile(np.arange(clients), (clients, 1))
    order = np.array(secrets.SystemRandom().sample(range(clients), clients))
    offsets = np.arange(size) - size // 2
    ring = np.empty((clients, size), np.int64)
    ring[order] = order[(np.arange(clients)[:, None] + offsets) % clients]
    return np.sort(ring, axis=1)


def threshold(count: int) -> int:
    """t, shares that give a secret: more than two thirds of the holders. So a server that tells
    some holders that a client is there, and others that it has gone, never gets enough of both."""
    return 2 * count // 3 + 1
