"""EDC, the Euclidean distance of decomposed cosine similarity. Each update's direction is described
by m numbers (FlexCFL, eq. 7)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.measures.gram import gram, leading_eigenpairs


def edc_embedding(updates: Float[np.ndarray, "n P"], directions: int) -> Float64[np.ndarray, "n m"]:
    """Embedding E_ij = cos(x_i, v_j) of update x_i, with v_j the first m left singular vectors of
    the P x n matrix of all updates: K(dW, V^T) in eq. 7.

    The entries are cosines in [-1, 1], the input of K-means. They are computed from the Gram matrix
    G: with G a_j = lambda_j a_j, v_j = sum_k a_kj x_k / sqrt(lambda_j), so that <x_i, v_j> = (G
    a_j)_i / sqrt(lambda_j), and no P x m matrix is formed. (This also equals sqrt(lambda_j) a_ij,
    which loses precision for updates much smaller than the others.) The sign of a singular vector
    is arbitrary, so the entry of largest magnitude in each column is made positive. Directions
    beyond the rank of the updates are zero columns; zero updates are zero rows.

    Raises:
        MethodError: there are fewer updates than directions, or ``directions`` is below 1.
    """
    inner = gram(updates)
    values, vectors = leading_eigenpairs(inner, directions)
    lengths = np.sqrt(np.outer(inner.diagonal(), values))
    projected = inner @ vectors
    cosines = np.divide(projected, lengths, out=np.zeros_like(projected), where=lengths > 0)
    # The sign of a direction is arbitrary, so its strongest entry is made positive.
    strongest = np.take_along_axis(cosines, np.abs(cosines).argmax(axis=0)[None], axis=0)
    signs = np.where(strongest < 0, -1, 1)
    return np.clip(cosines * signs, -1, 1)


def edc(embedding: Float[np.ndarray, "n m"]) -> Float64[np.ndarray, "n n"]:
    """Distances EDC(i, j) = |E_i - E_j| / m of eq. 7. The factor 1/m does not change a clustering
    into a given number of clusters."""
    from scipy.spatial.distance import pdist, squareform

    return squareform(pdist(embedding)) / embedding.shape[1]
