"""Search of quantiles by counts, without sorting all values in one place.

Counts of several clients add up, so no client needs the values of another one. Shapes: q quantiles,
d columns, E edges of bins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int


class RankCounts(NamedTuple):
    """How many values of each column do not exceed the edges of some bins.

    Attributes:
        not_above: number of values up to each edge [E q d].
        count: number of all values, of all columns or of each column.
    """

    not_above: Int[np.ndarray, "E q d"]
    count: int | Int[np.ndarray, "d"]


Counter = Callable[[Float64[np.ndarray, "q d"], Float64[np.ndarray, "q d"]], RankCounts]


def bin_edges(
    low: Float64[np.ndarray, "q d"], high: Float64[np.ndarray, "q d"], bins: int
) -> Float64[np.ndarray, "E q d"]:
    """The edges of equal bins. The last edge is exactly the highest value.

    Args:
        low: the first edge, for each quantile and column.
        high: the last edge, for each quantile and column.
        bins: number of bins.
    """
    return np.linspace(low, high, bins + 1)


def values_not_above(
    block: Float64[np.ndarray, "b d"], edges: Float64[np.ndarray, "E q d"]
) -> Int[np.ndarray, "E q d"]:
    """How many values of each column of a block do not exceed each edge."""
    counts = np.zeros(edges.shape, np.int64)
    ordered = np.sort(block, axis=0)
    for column in range(block.shape[1]):
        counts[:, :, column] = np.searchsorted(
            ordered[:, column], edges[:, :, column], side="right"
        )
    return counts


def search_quantiles(
    counter: Counter,
    shares: tuple[float, ...],
    low: Float64[np.ndarray, "d"],
    high: Float64[np.ndarray, "d"],
    histograms: int,
    bins: int,
) -> Float64[np.ndarray, "q d"]:
    """Quantiles of each column, to the range / bins^histograms.

    The quantile of a share s is the smallest value that at least s of the values do not exceed. A
    histogram over the range locates it in one bin, the next histogram in a bin of this bin, and so
    on: selection with few passes (Munro and Paterson 1980).

    Args:
        counter: counts values between two bounds of each quantile and column.
        shares: share of each quantile, above 0 and at most 1.
        low: a value that no quantile is below, of each column.
        high: a value that no quantile exceeds, of each column.
        histograms: number of calls of ``counter``.
        bins: number of bins between two bounds.

    Returns:
        The upper edge of the last bin of each quantile.
    """
    low = np.broadcast_to(low, (len(shares), len(low))).copy()
    high = np.broadcast_to(high, low.shape).copy()
    for _ in range(histograms):
        edges = bin_edges(low, high, bins)
        counts = counter(low, high)
        needed = np.ceil(np.array(shares)[:, None] * counts.count - 1e-9)
        reached = counts.not_above >= needed
        # A client whose counts are missing may leave a quantile above all bins.
        first = np.where(reached.any(axis=0), reached.argmax(axis=0), bins)[None]
        high = np.take_along_axis(edges, first, axis=0)[0]
        low = np.take_along_axis(edges, np.maximum(first - 1, 0), axis=0)[0]
    return high
