"""Ternary cosine similarity, which describes an update's direction by three numbers (FedGroup, eqs.
7-9, Algorithm 3)."""

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

    Since n is far below P, the SVD uses the n x n Gram matrix. If v_j is its j-th eigenvector, the
    j-th direction is the combination of the updates with weights v_j. This is exact, whereas the
    authors' randomised SVD is approximate. The sign of a direction is arbitrary in both. Updates
    are not centred. Directions beyond the rank of the updates are zero instead of rounding noise,
    so they are equally dissimilar to all updates.

    Raises:
        MethodError: there are fewer updates than components.
    """
    _, vectors = leading_eigenpairs(gram(updates), components)
    return vectors.T.astype(updates.dtype) @ updates


def ternary_similarity(
    updates: Float[np.ndarray, "n P"], directions: Float[np.ndarray, "k P"]
) -> Float[np.ndarray, "n k"]:
    """FedGroup's dissimilarities M_ij = (1 - cos(update_i, v_j)) / 2 of updates and directions
    (eqs. 8, 9).

    The paper's eq. 7 divides only the first column of cosines by the norm of the update. This is
    a misprint, since all columns are cosines.
    """
    return dissimilarity(updates, directions)
