"""The neighbours of each client in a secret sum. Neighbours have a common mask, which hides their
vectors, and hold shares of each other's secrets. Each client has about 20 neighbours (Bell et al.
2020, SecAgg+).

Shapes: n clients of a sum, G holders of each client's shares, including the client.
"""

from __future__ import annotations

import secrets

import numpy as np
from jaxtyping import Int


def ring_size(neighbours: int) -> int:
    """Number of clients that hold shares of a client's secrets, including the client itself, in a
    large sum. (In a sum with fewer clients than this number, all clients are holders.)

    Args:
        neighbours: approximate number of a client's neighbours; half of them on each side of the
            client in a ring of all clients.
    """
    return 2 * max(1, neighbours // 2) + 1


def holders(clients: int, neighbours: int) -> Int[np.ndarray, "n G"]:
    """The holders of each client's shares (the client and its neighbours), as positions from 0.

    Neighbours are all other clients, or in a large sum the adjacent clients on a ring in random
    order.

    If a is a neighbour of b, b is a neighbour of a. The order comes from the operating system's
    randomness, so that attackers cannot arrange to be the neighbours of a client.

    Args:
        clients: number of clients n.
        neighbours: approximate number of neighbours; half of them on each side on the ring.
    """
    size = ring_size(neighbours)
    if size >= clients:
        return np.tile(np.arange(clients), (clients, 1))
    # A place on the ring for each client; its neighbours are the adjacent places on both sides.
    order = np.array(secrets.SystemRandom().sample(range(clients), clients))
    offsets = np.arange(size) - size // 2
    ring = np.empty((clients, size), np.int64)
    ring[order] = order[(np.arange(clients)[:, None] + offsets) % clients]
    return np.sort(ring, axis=1)


def threshold(count: int) -> int:
    """t, the number of shares needed to reconstruct a secret: more than two thirds of the holders.

    A dishonest server may tell some holders that a client is present, so that they reveal shares of
    one secret, and others that it has dropped out, so that they reveal shares of the other. With
    this threshold the server cannot get enough shares of both secrets.
    """
    return 2 * count // 3 + 1
