"""Ternary cosine similarity: where an update points, in three numbers (FedGroup, eqs. 7-9, Algorithm 3)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.errors import MethodError
from fedkin.measures.cosine import dissimilarity

_NOISE = 1e-12  # of the first squared singular value: float32 updates know no weaker direction
_BLOCK = 2**18  # numbers of an update that are widened to float64 at a time


def base_directions(updates: Float[np.ndarray, "n P"], components: int = 3) -> Float[np.ndarray, "k P"]:
    """The first left singular vectors of the P x n matrix of updates, times their singular values (Alg. 3, l. 7).

    n is far below P, so the SVD goes through the n x n Gram matrix: if v_j is its j-th eigenvector, the j-th
    direction is the combination v_j of the updates. Exact, where the authors' randomised SVD is approximate; signs
    are arbitrary in both. Nothing is centred. A direction that the updates do not have (their rank is lower) is zero,
    and so as unlike to every update as to any other, where rounding would make noise of it.

    Raises:
        MethodError: fewer updates than components.
    """
    if len(updates) < components:
        raise MethodError(f"{components} base directions need at least as many updates, got {len(updates)}")
    values, vectors = np.linalg.eigh(_gram(updates))
    leading = vectors[:, ::-1][:, :components]
    leading = np.where(values[::-1][:components] > _NOISE * values[-1], leading, 0)
    return leading.T.astype(updates.dtype) @ updates


def _gram(updates: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n n"]:
    """Inner products in float64: a direction a thousand times weaker than the first still counts."""
    total = np.zeros((len(updates), len(updates)))
    for start in range(0, updates.shape[1], _BLOCK):
        block = updates[:, start : start + _BLOCK].astype(np.float64)
        total += block @ block.T
    return total


def ternary_similarity(
    updates: Float[np.ndarray, "n P"], directions: Float[np.ndarray, "k P"]
) -> Float[np.ndarray, "n k"]:
    """M_ij = (1 - cos(update_i, v_j)) / 2 (eqs. 8, 9).

    Eq. 7 as printed divides by the norm of the update only in the first column, a slip: all columns are cosines.
    """
    return dissimilarity(updates, directions)
