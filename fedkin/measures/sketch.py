"""Sketches: short vectors whose cosines are close to the cosines of the long vectors they replace.
The projection is random and does not depend on the data.

The count sketch (Charikar, Chen and Farach-Colton 2002) adds every coordinate, with a random sign,
to one of s buckets. The inner product of two sketches equals the inner product of the vectors x and
y on average, with a standard deviation of about |x| |y| / sqrt(s).

Shapes: r rows (vectors), P numbers of a vector, s numbers of a sketch, m = s (s + 1) / 2 products
of two numbers of a sketch.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64


def unit_sketches(
    rows: Float[np.ndarray, "r P"], size: int, seed: int
) -> Float64[np.ndarray, "r s"]:
    """Sketches of vectors (rows), normalised to length 1. A vector of zeros gives zeros, a
    nonfinite vector gives NaN.

    Args:
        rows: the vectors.
        size: s, the length of a sketch.
        seed: seed of the random buckets and signs. It is no secret: all clients must use the same
            ones.
    """
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    numbers = rows.shape[1]
    buckets = rng.integers(size, size=numbers)
    signs = 2.0 * rng.integers(2, size=numbers) - 1
    projection = csr_array((signs, (buckets, np.arange(numbers))), shape=(size, numbers))
    sketches = np.asarray((projection @ rows.T.astype(np.float64)).T)
    # A nonfinite row becomes NaN.
    with np.errstate(invalid="ignore"):
        lengths = np.linalg.norm(sketches, axis=1, keepdims=True)
        return sketches / np.maximum(lengths, np.finfo(np.float64).tiny)


def second_moments(rows: Float[np.ndarray, "r s"]) -> Float64[np.ndarray, "r m"]:
    """Second moments of each row (sketch) x: the upper triangle of the matrix x x^T, as a row of
    the result. Entries off the diagonal are multiplied by sqrt(2), so that the norm of this row is
    |x|^2, the Frobenius norm of the whole matrix."""
    upper, across = np.triu_indices(rows.shape[1])
    scale = np.where(upper == across, 1, np.sqrt(2))
    return rows[:, upper].astype(np.float64) * rows[:, across] * scale


def moment_matrix(moments: Float[np.ndarray, "m"], size: int) -> Float64[np.ndarray, "s s"]:
    """The symmetric matrix of second moments, from its scaled upper triangle (see
    ``second_moments``).

    Args:
        moments: a row of the result of ``second_moments``, or a sum of such rows.
        size: s, the length of a sketch.
    """
    upper, across = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[upper, across] = np.where(upper == across, moments, moments / np.sqrt(2))
    return np.triu(matrix) + np.triu(matrix, 1).T
