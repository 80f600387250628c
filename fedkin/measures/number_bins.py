"""Numbers counted in bins whose edges are quantiles of all samples, so that divergences of classes
apply to them.

Shapes: M samples, N clients, B bins with e = B - 1 inner edges.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int, Real

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_positive_integer

BINS = 10


def quantile_edges(values: Real[np.ndarray, "M"], bins: int = BINS) -> Float64[np.ndarray, "e"]:
    """The inner edges of bins that hold about equal numbers of samples, in ascending order.

    Counts have many equal values, and then several quantiles are equal. Their bins are merged, so
    there may be fewer bins, and only one if all values are equal.

    Args:
        values: numbers of all samples, none of them NaN.
        bins: largest number of bins.

    Raises:
        MethodError: there are no samples, or ``bins`` is not a positive integer.
    """
    check_positive_integer("bins", bins)
    if not len(values):
        raise MethodError("bins of quantiles need at least one sample, got none")
    shares = np.arange(1, bins) / bins
    edges = np.unique(np.quantile(np.asarray(values, np.float64), shares))
    # An edge at the smallest value would leave the first bin empty.
    return edges[edges > values.min()]


def bins_of(values: Real[np.ndarray, "M"], edges: Float64[np.ndarray, "e"]) -> Int[np.ndarray, "M"]:
    """The bin of each number, 0 .. B-1. A number that equals an edge is above it.

    Args:
        values: the numbers.
        edges: inner edges of the bins; the outer bins are open.
    """
    return np.searchsorted(edges, values, side="right")


def bin_counts(
    values: Real[np.ndarray, "M"],
    client: Int[np.ndarray, "M"],
    clients: int,
    edges: Float64[np.ndarray, "e"],
) -> Int[np.ndarray, "N B"]:
    """Number of each client's samples in each bin. A value that equals an edge is above it.

    Args:
        values: numbers of the samples.
        client: position of the client of each sample.
        clients: number of clients N.
        edges: inner edges of the bins; the outer bins are open.
    """
    bins = len(edges) + 1
    place = bins_of(values, edges)
    return np.bincount(client * bins + place, minlength=clients * bins).reshape(clients, bins)
