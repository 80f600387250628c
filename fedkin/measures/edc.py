"""EDC, the Euclidean distance of decomposed cosine similarity. Each update's direction is described
by m numbers (FlexCFL, eq. 7)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.measures.gram import gram, leading_eigenpairs


def edc_embedding(updates: Float[np.ndarray, "n P"], directions: int) -> Float64[np.ndarray, "n m"]:
    """The cosines E_ij = cos(x_i, v_j) of each update x_i with m directions, as the input of
    K-means.

    The directions v_1, ..., v_m are the first m left singular vectors of the P x n matrix of all
    updates. E is the matrix K(dW, V^T) in eq. 7 of FlexCFL.

    * Signs: the sign of a singular vector is arbitrary, so the entry of largest magnitude in each
      column of E is made positive.
    * Zeros: a direction beyond the rank of the updates gives a column of zeros. An update of zeros
      gives a row of zeros.
    * Computation: no P x m matrix is formed. The Gram matrix G of the updates has unit
      eigenvectors a_j: G a_j = lambda_j a_j. Then v_j = sum_k a_kj x_k / sqrt(lambda_j), and
      <x_i, v_j> = (G a_j)_i / sqrt(lambda_j). The equal expression sqrt(lambda_j) a_ij is not
      used, because it loses precision for updates much smaller than the others.

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
    """Distances EDC(i, j) = |E_i - E_j| / m of FlexCFL's eq. 7, where E_i is row i of ``embedding``
    (update i). The factor 1/m does not change a clustering into a given number of clusters."""
    from scipy.spatial.distance import pdist, squareform

    return squareform(pdist(embedding)) / embedding.shape[1]
