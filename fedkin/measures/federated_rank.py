"""The k-th smallest number of all clients, from histograms: the numbers themselves stay with the
clients.

A histogram over the whole range locates the number in one bin, the next histogram in a bin of this
bin, and so on: selection with few passes (J. I. Munro, M. S. Paterson: Selection and Sorting with
Limited Storage. 1980). The counts of clients add up, so secret sums can carry them.

Shapes: E edges, in ascending order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int, Real

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_positive_integer

# Counts of numbers that are at most each edge, summed over clients.
Counting = Callable[[Float64[np.ndarray, "E"]], Int[np.ndarray, "E"]]


def counts_up_to(
    values: Real[np.ndarray, "M"], edges: Float64[np.ndarray, "E"]
) -> Int[np.ndarray, "E"]:
    """Number of a client's values that are at most each edge. The sum over clients is the count of
    all values."""
    return np.searchsorted(np.sort(values), edges, side="right").astype(np.int64)


def federated_rank(
    counting: Counting,
    rank: int,
    low: float,
    high: float,
    *,
    bins: int = 1024,
    passes: int = 4,
) -> float:
    """The k-th smallest of all clients' numbers, to (high - low) / bins^passes.

    Args:
        counting: returns how many of all clients' numbers are at most each edge, such as the sum of
            ``counts_up_to`` over clients. It is called once for each pass.
        rank: k, from 1.
        low: a public lower bound of the numbers; a smaller number counts as this one.
        high: a public upper bound of the numbers.
        bins: number of bins of a histogram.
        passes: number of histograms.

    Returns:
        A number with at least k numbers up to it, and fewer than k up to the last edge below it;
        infinity if fewer than k numbers are at most ``high``.

    Raises:
        MethodError: an option is out of range, or the bounds are in the wrong order.
    """
    for name, value in (("rank", rank), ("bins", bins), ("passes", passes)):
        check_positive_integer(name, value)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise MethodError(f"the bounds must be finite numbers low < high, got {low} and {high}")
    for _ in range(passes):
        edges = np.linspace(low, high, bins + 1)
        reached = counting(edges) >= rank
        if not reached[-1]:
            return math.inf
        first = int(reached.argmax())
        high = float(edges[first])
        if first == 0:
            break
        low = float(edges[first - 1])
    return high
