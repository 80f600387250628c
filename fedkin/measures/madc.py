"""MADC, the mean of absolute differences of cosine similarity (FlexCFL, eq. 6)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError

# Number of rows that a thread takes at a time (a strip) and compares with all later rows. Small
# strips give all threads equal work.
_STRIP = 16


def madc(similarity: Float[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """Distances MADC(i, j) = 1 / (n - 2) sum over z other than i and j of |S_iz - S_jz|; 0 for i =
    j.

    Two updates are close if they are equally similar to all others. ``similarity`` has the cosines
    of the updates; its diagonal is 1, or 0 for a zero update. The sum is computed over all z, minus
    the terms of i and j, so memory is n x n, never n x n x n.

    Raises:
        MethodError: there are fewer than three updates, so there is no z.
    """
    n = len(similarity)
    if n < 3:
        raise MethodError(
            "MADC compares two updates by their similarity to others, so it needs at least 3 "
            f"updates, got {n}"
        )
    similarity = similarity.astype(np.float64, copy=False)
    total = _cityblock(similarity)
    # The terms for z = i. Their transpose has the terms for z = j.
    terms = np.abs(similarity.diagonal()[:, None] - similarity)
    total -= terms
    total -= terms.T
    # Rounding errors can make entries negative.
    np.maximum(total, 0, out=total)
    total /= n - 2
    return total


def _cityblock(rows: Float64[np.ndarray, "n z"]) -> Float64[np.ndarray, "n n"]:
    """L1 distances between all rows of a matrix, computed in parallel by strips of rows. Threads
    help because SciPy releases the GIL."""
    from scipy.spatial.distance import cdist

    total = np.zeros((len(rows), len(rows)))

    def strip(start: int) -> None:
        """Fill in the distances of a strip of rows to all later rows, on both sides of the
        diagonal."""
        sums = cdist(rows[start : start + _STRIP], rows[start:], "cityblock")
        total[start : start + _STRIP, start:] = sums
        total[start:, start : start + _STRIP] = sums.T

    with ThreadPoolExecutor() as threads:
        list(threads.map(strip, range(0, len(rows), _STRIP)))
    return total
