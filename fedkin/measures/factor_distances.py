"""Distances between clients by the factors of their low-rank adapters. Shapes: n clients, P
parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from fedkin.measures.cosine import cosine


def mean_cosine_distances(
    updates: Float[np.ndarray, "n P"], matrices: Sequence[slice]
) -> Float[np.ndarray, "n n"]:
    """Mean over some matrices of 1 minus the cosine of two clients' updates of this matrix
    (FedLEASE, eq. 2): from 0 for equal directions to 2 for opposite ones.

    A matrix counts the same whatever its size and its norm. An update of zeros has no direction;
    its cosines are 0.

    Args:
        updates: flat updates of clients.
        matrices: where each matrix lies in the flat vector.
    """
    total = np.zeros((len(updates), len(updates)))
    for columns in matrices:
        part = updates[:, columns]
        total += 1 - cosine(part, part)
    return total / len(matrices)
