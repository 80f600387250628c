"""Mean of absolute differences of cosine similarity (FlexCFL, eq. 6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError

_STRIP = 64  # rows that one thread compares at a time with those after them


def madc(similarity: Float[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """MADC(i, j) = 1 / (n - 2) sum over z other than i and j of |S_iz - S_jz|; 0 for i = j.

    Two updates are near if they are equally similar to all others. ``similarity`` has the cosines of the updates; its
    diagonal is 1, or 0 for an update of zeros. The sum is taken over all z and the terms of i and j subtracted:
    n x n numbers in memory, never n x n x n.

    Raises:
        MethodError: fewer than three updates, which leave no z.
    """
    n = len(similarity)
    if n < 3:
        raise MethodError(f"MADC compares two updates by their similarity to others: it needs at least 3, got {n}")
    similarity = similarity.astype(np.float64, copy=False)
    own = np.abs(similarity.diagonal()[:, None] - similarity)  # z = i; its transpose is z = j
    total = _cityblock(similarity) - own - own.T
    return np.clip(total, 0, None) / (n - 2)  # rounding can leave less than nothing


def _cityblock(rows: Float64[np.ndarray, "n z"]) -> Float64[np.ndarray, "n n"]:
    """Sums of absolute differences between rows, in strips side by side: SciPy frees Python's lock while it adds."""
    from scipy.spatial.distance import cdist

    total = np.zeros((len(rows), len(rows)))

    def strip(start: int) -> None:
        total[start : start + _STRIP, start:] = cdist(rows[start : start + _STRIP], rows[start:], "cityblock")

    with ThreadPoolExecutor() as threads:
        list(threads.map(strip, range(0, len(rows), _STRIP)))
    above = np.triu(total, 1)
    return above + above.T
