"""Numbers counted in bins whose edges are quantiles of all samples, so that divergences of classes
apply to them.

Shapes: M samples, N clients, B bins with e = B - 1 inner edges.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int, Real

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_positive_integer
from fedkin.measures.label_divergence import label_divergence

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


def divergence_ratio(
    counts: Int[np.ndarray, "N B"], rng: np.random.Generator, deals: int = 20
) -> float:
    """Mean divergence of the clients' distributions from the common one of all samples, divided by
    its mean in random deals of the same samples to clients of the same sizes.

    The ratio is about 1 if clients differ by chance alone. It grows with the clients' sizes, so it
    says whether a difference can be detected, not whether it is large; that says
    ``intraclass_correlation``.

    Args:
        counts: number of each client's samples in each bin; every client has a sample.
        rng: source of the deals.
        deals: number of random deals.

    Returns:
        The ratio; NaN if no deal has a divergence, as with a single client.
    """
    check_positive_integer("deals", deals)
    found = float(label_divergence(counts).mean())
    sizes = counts.sum(axis=1)
    total = counts.sum(axis=0)
    by_chance = [label_divergence(dealt(total, sizes, rng)).mean() for _ in range(deals)]
    expected = float(np.mean(by_chance))
    return found / expected if expected > 0 else float("nan")


def dealt(
    total: Int[np.ndarray, "B"], sizes: Int[np.ndarray, "N"], rng: np.random.Generator
) -> Int[np.ndarray, "N B"]:
    """Counts of clients with these sizes to which the samples of all bins are dealt at random,
    without replacement.

    Args:
        total: number of all samples in each bin.
        sizes: number of each client's samples; their sum is the number of all samples.
        rng: source of the deal.
    """
    bins = rng.permutation(np.repeat(np.arange(len(total)), total))
    client = np.repeat(np.arange(len(sizes)), sizes)
    flat = client * len(total) + bins
    return np.bincount(flat, minlength=len(sizes) * len(total)).reshape(len(sizes), len(total))
