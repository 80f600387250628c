"""Ternary cosine similarity: the direction of an update in three numbers (FedGroup, eqs. 7-9,
Algorithm 3)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.measures.cosine import dissimilarity
from fedkin.measures.gram import gram, leading_eigenpairs


def base_directions(
    updates: Float[np.ndarray, "n P"], components: int = 3
) -> Float[np.ndarray, "k P"]:
    """The first left singular vectors of the P x n matrix of updates, times their singular values
    (Alg. 3, l. 7).

    Since n is far below P, the SVD uses the n x n Gram matrix: if v_j is its j-th eigenvector, the
    j-th direction is the combination v_j of the updates. This is exact, whereas the authors'
    randomised SVD is approximate; signs are arbitrary in both. Updates are not centred. Directions
    beyond the rank of the updates are zero instead of rounding noise, so they are equally
    dissimilar to all updates.

    Raises:
        MethodError: fewer updates than components.
    """
    _, vectors = leading_eigenpairs(gram(updates), components)
    return vectors.T.astype(updates.dtype) @ updates


def ternary_similarity(
    updates: Float[np.ndarray, "n P"], directions: Float[np.ndarray, "k P"]
) -> Float[np.ndarray, "n k"]:
    """M_ij = (1 - cos(update_i, v_j)) / 2 (eqs. 8, 9).

    Eq. 7 as printed divides by the norm of the update only in the first column. This is an error:
    all columns are cosines.
    """
    return dissimilarity(updates, directions)
