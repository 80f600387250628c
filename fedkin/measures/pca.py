"""Principal component analysis of a few long rows, such as client updates.

Shapes: n rows (vectors), P parameters, q components.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError
from fedkin.measures.gram import float64_blocks, leading_eigenpairs


def principal_scores(
    rows: Float[np.ndarray, "n P"], variance: float | int = 0.95
) -> Float64[np.ndarray, "n q"]:
    """Scores of rows (vectors) on the fewest principal components that explain more than
    ``variance`` (a share) of the rows' variance.

    The result is exact, without decomposing an n x P matrix. With Z the centred rows and Z Z^T = U
    diag(s^2) U^T, the scores are U s (FedSim, Alg. 2, l. 5). A ``variance`` of 1 keeps all
    components. The sign of a component is arbitrary. If all rows are equal, the result is one
    component of zeros.

    Raises:
        MethodError: there are no rows, or ``variance`` is not in (0, 1].
    """
    if not 0 < variance <= 1:
        raise MethodError(f"variance must be a share above 0 and at most 1, got {variance}")
    values, vectors = leading_eigenpairs(_centred_gram(rows), len(rows))
    if not values.any():
        return np.zeros((len(rows), 1))
    q = component_count(explained_shares(values), variance)
    return vectors[:, :q] * np.sqrt(values[:q])


def explained_variance(rows: Float[np.ndarray, "n P"]) -> Float64[np.ndarray, "n"]:
    """The share of the variance that each principal component explains, largest first. All shares
    are zero if all rows (vectors) are equal."""
    values, _ = leading_eigenpairs(_centred_gram(rows), len(rows))
    return explained_shares(values)


def count_distinct(scores: Float64[np.ndarray, "n q"]) -> int:
    """Number of distinct rows in a matrix of scores. Numbers count as equal if they differ by less
    than about 1e-9 of the largest number."""
    scale = np.abs(scores).max(initial=0)
    if not scale > 0:
        return min(1, len(scores))
    rounded = np.round(scores / scale, 9)
    return len(np.unique(rounded, axis=0))


def component_count(shares: Float64[np.ndarray, "n"], variance: float | int) -> int:
    """The smallest number of principal components whose shares of the variance sum to more than
    ``variance``."""
    return 1 + int(np.searchsorted(np.cumsum(shares)[:-1], variance, side="right"))


def explained_shares(values: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    """The share of the variance that each principal component explains: its eigenvalue divided by
    the sum of all eigenvalues; zeros if all are zero."""
    return values / values.sum() if values.any() else np.zeros_like(values)


def _centred_gram(rows: Float[np.ndarray, "n P"]) -> Float64[np.ndarray, "n n"]:
    """Gram matrix (inner products of all pairs) of the rows (vectors) minus their mean; zeros if
    all rows are equal.

    The mean is subtracted before the products, because it may be a thousand times longer than the
    differences.
    """
    if not len(rows):
        raise MethodError("principal components need at least one row, got 0")
    total = np.zeros((len(rows), len(rows)))
    for block in float64_blocks(rows):
        differences = block - block[0]
        centred = differences - differences.mean(axis=0)
        total += centred @ centred.T
    return total
