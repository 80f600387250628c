"""Mean of absolute differences of cosine similarity (FlexCFL, eq. 6)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError


def madc(similarity: Float[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """MADC(i, j) = 1 / (n - 2) sum over z other than i and j of |S_iz - S_jz|; 0 for i = j.

    Two updates are near if they are equally similar to all others. ``similarity`` has the cosines of the updates; its
    diagonal is 1, or 0 for an update of zeros. The sum is taken over all z and the terms of i and j subtracted:
    n x n numbers in memory, never n x n x n.

    Raises:
        MethodError: fewer than three updates, which leave no z.
    """
    from scipy.spatial.distance import pdist, squareform

    n = len(similarity)
    if n < 3:
        raise MethodError(f"MADC compares two updates by their similarity to others: it needs at least 3, got {n}")
    similarity = similarity.astype(np.float64, copy=False)
    own = np.abs(similarity.diagonal()[:, None] - similarity)  # z = i; its transpose is z = j
    total = squareform(pdist(similarity, "cityblock")) - own - own.T
    return np.clip(total, 0, None) / (n - 2)  # rounding can leave less than nothing
