"""Similarities of peers by their updates, and by losses of each other's models (PANM). Shapes: P
parameters, n and m peers."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.measures.cosine import cosine_from

_MIN_LOSS = 1e-12  # smaller losses are raised to this, so that 1 / loss stays finite

# Models and last updates of the same peers.
Vectors = tuple[Float[np.ndarray, "_ P"], Float[np.ndarray, "_ P"]]


def gradient_similarity(
    alpha: float | int,
    start: Float[np.ndarray, "P"],
    own: Vectors,
    others: Vectors,
) -> Float[np.ndarray, "n m"]:
    """Similarity of peers i and j by their last updates g and total updates h = w - w_0 (PANM, eqs.
    2-4): alpha cos(g_i, g_j) + (1 - alpha) cos(h_i, h_j).

    Args:
        alpha: weight of the last updates, in [0, 1].
        start: w_0, the initial model.
        own: (models w_i, updates g_i) of the peers that compare.
        others: (models w_j, updates g_j) of the compared peers.

    Returns:
        A matrix: one row for each peer in ``own``, one column for each in ``others``. The cosine
        with a zero vector is 0.
    """
    own_models, own_updates = own
    other_models, other_updates = others
    similarity = np.zeros((len(own_models), len(other_models)))
    if alpha:
        similarity += alpha * cosine_from(own_updates, other_updates)
    if alpha < 1:
        similarity += (1 - alpha) * cosine_from(own_models, other_models, start)
    return similarity


def loss_similarity(loss: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Similarity s_ij = 1 / F_i(w_j) from the loss F_i(w_j) of peer j's model on peer i's data
    (PANM, eq. 1). It is 0 for a loss that is not finite, and never infinite."""
    return np.where(np.isfinite(loss), 1 / np.maximum(loss, _MIN_LOSS), 0.0)
