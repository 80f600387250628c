"""Weights of clients' updates in a rule's aggregate: 1 / n in a mean, 0 for an excluded update.

In every coordinate, the aggregate is a weighted mean of the rows (clients' updates), with weights
that may differ by coordinate (in a median, the middle row has all the weight). A row's weight is
the mean of these weights over all coordinates. A pre-aggregation step may mix rows (NNM,
bucketing): then the weight of a mixture is divided among its rows. Or it shortens rows (ARC,
clipping), which reduces their weight by the same factor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.options.robust.preaggregation import (
    BUCKET,
    Rows,
    adaptive_clipping,
    bucket_order,
    clip_factors,
    majority,
    nearest_rows,
)
from fedkin.options.robust.rules import (
    RULES,
    check_byzantine,
    geometric_median,
    krum_scores,
    parse,
    prepared,
    smallest_subset,
    smoothed_geometric_median,
)

Weights = Float64[np.ndarray, "n"]


def weights(rows: Float[np.ndarray, "n P"], rule: str, f: int) -> Weights:
    """The weight of each row (a client's update) in the aggregate that ``rules.aggregate``
    computes.

    Args:
        rows: updates of n clients, one row each.
        rule: a name of ``rules.RULES``, with names of ``rules.BEFORE`` as prefixes.
        f: assumed number of Byzantine clients.
    """
    return aggregate_and_weights(rows, rule, f)[1]


def aggregate_and_weights(
    rows: Float[np.ndarray, "n P"], rule: str, f: int
) -> tuple[Float64[np.ndarray, "P"], Weights]:
    """The rule's aggregate, as in ``rules.aggregate``, and the weight of each row (a client's
    update) in it.

    Pre-aggregation steps are done once for both.

    Args:
        rows: updates of n clients, one row each.
        rule: as in ``weights``.
        f: assumed number of Byzantine clients.
    """
    before, last = parse(rule)
    steps = list[Callable[[Weights], Weights]]()
    current = rows.astype(np.float64)
    check_byzantine(rule, len(current), f)
    for name in before:
        if name == "majority":
            kept = majority(current, f)
            steps.append(partial(_of_majority, kept, len(current)))
            f = f - (len(current) - len(kept))
            current = current[kept]
        else:
            steps.append(partial(_BACK[name], current, f))
            current, f = prepared(current, name, f)
        check_byzantine(rule, len(current), f)
    counted = WEIGHTS[last](current, f)
    # From the weights of the prepared rows back to the weights of the clients' rows.
    for step in reversed(steps):
        counted = step(counted)
    return RULES[last](current, f), counted


def _equal(rows: Rows, f: int) -> Weights:
    """Equal weights 1 / n of all rows (clients' updates), as in a mean."""
    return np.full(len(rows), 1 / len(rows))


def _median(rows: Rows, f: int) -> Weights:
    """The share of coordinates in which each row (a client's update) has the middle value. For even
    n there are two middle values, and each counts half."""
    n = len(rows)
    order = np.argsort(rows, axis=0, kind="stable")
    return _shares(order[(n - 1) // 2 : n // 2 + 1], n)


def _trimmed_mean(rows: Rows, f: int) -> Weights:
    """Weight of each row (a client's update) in a trimmed mean: the share of the kept values that
    come from the row."""
    n = len(rows)
    order = np.argsort(rows, axis=0, kind="stable")
    return _shares(order[f : n - f], n)


def _mean_around_median(rows: Rows, f: int) -> Weights:
    """Weight of each row (a client's update) in the mean around the median.

    In each coordinate, the n - f values nearest to the median are kept. The weight is the share of
    all kept values that come from the row.
    """
    n = len(rows)
    order = np.argsort(np.abs(rows - np.median(rows, axis=0)), axis=0, kind="stable")
    return _shares(order[: n - f], n)


def _krum(rows: Rows, f: int) -> Weights:
    """Weight 1 for the row (a client's update) that Krum selects, 0 for all others."""
    return _shares(np.argmin(krum_scores(rows, len(rows) - f - 2)), len(rows))


def _multi_krum(rows: Rows, f: int) -> Weights:
    """Equal weights of the n - f rows (clients' updates) that Multi-Krum selects."""
    n = len(rows)
    order = np.argsort(krum_scores(rows, n - f - 1), kind="stable")
    return _shares(order[: n - f], n)


def _geometric_median(rows: Rows, f: int) -> Weights:
    """Weights of the rows (clients' updates), proportional to 1 / distance from the geometric
    median, as in a Weiszfeld step."""
    distances = np.linalg.norm(rows - geometric_median(rows, f), axis=1)
    near = 1 / np.maximum(distances, 1e-12 * max(1.0, float(distances.max())))
    return near / near.sum()


def _smoothed_geometric_median(rows: Rows, f: int, steps: int = 3, floor: float = 0.1) -> Weights:
    """Weights of the rows (clients' updates) in RFA's last step, whose result is their weighted
    mean."""
    point = smoothed_geometric_median(rows, f, steps - 1, floor)
    near = 1 / np.maximum(np.linalg.norm(rows - point, axis=1), floor)
    return near / near.sum()


def _centered_clipping(rows: Rows, f: int, steps: int = 3) -> Weights:
    """Weights of the rows (clients' updates) in the centre v that centred clipping returns.

    v is a weighted sum of the rows, and starts at zero. Each step scales down the weights so far,
    and adds a fraction of every row.
    """
    counted = np.zeros(len(rows))
    n = len(rows)
    for _ in range(steps):
        factors = clip_factors(rows - counted @ rows)
        # v + mean of factor_i (x_i - v), written as weights of the rows x_i.
        counted = counted * (1 - factors.mean()) + factors / n
    return counted


def _minimum_diameter(rows: Rows, f: int) -> Weights:
    """Equal weights of the n - f rows (clients' updates) that MDA selects."""
    return _shares(smallest_subset(rows, f), len(rows))


def _shares(kept: Int[np.ndarray, "..."] | np.integer, n: int) -> Weights:
    """For each of n rows (clients' updates), how often its index occurs among the kept indices, as
    a share of all kept indices; 0 for a row that was never kept.

    Args:
        kept: indices of kept rows, for all coordinates together or for each.
        n: number of rows.
    """
    return np.bincount(np.ravel(kept), minlength=n) / np.size(kept)


def _unmixed(rows: Rows, f: int, counted: Weights) -> Weights:
    """Nearest-neighbour mixing (NNM): weights of the rows (clients' updates), from the weights of
    the means that NNM has made of them."""
    nearest = nearest_rows(rows, f)
    each = np.repeat(counted / nearest.shape[1], nearest.shape[1])
    return np.bincount(nearest.ravel(), each, len(rows))


def _unclipped(rows: Rows, f: int, counted: Weights) -> Weights:
    """Adaptive clipping (ARC): weights of rows (clients' updates), from the weights of the
    shortened rows."""
    lengths = np.linalg.norm(rows, axis=1)
    cut = np.linalg.norm(adaptive_clipping(rows, f), axis=1)
    return counted * np.divide(cut, lengths, out=np.ones(len(rows)), where=lengths > 0)


def _unclipped_to_median(rows: Rows, f: int, counted: Weights) -> Weights:
    """Median clipping: weights of rows (clients' updates), from the weights of the shortened
    rows."""
    return counted * clip_factors(rows)


def _from_buckets(rows: Rows, f: int, counted: Float64[np.ndarray, "b"]) -> Weights:
    """Bucketing: weights of the rows (clients' updates), from the weights of the buckets' means."""
    bucket = np.arange(len(rows)) // BUCKET
    weights = np.empty(len(rows))
    weights[bucket_order(rows)] = (counted / np.bincount(bucket))[bucket]
    return weights


def _of_majority(kept: Int[np.ndarray, "m"], n: int, counted: Float64[np.ndarray, "m"]) -> Weights:
    """Majority: weights of all n rows (clients' updates), from the weights of the rows that were
    kept."""
    weights = np.zeros(n)
    weights[kept] = counted
    return weights


WEIGHTS: dict[str, Callable[[Rows, int], Weights]] = {
    "mean": _equal,
    "median": _median,
    "trimmed_mean": _trimmed_mean,
    "mean_around_median": _mean_around_median,
    "krum": _krum,
    "multi_krum": _multi_krum,
    "geometric_median": _geometric_median,
    "rfa": _smoothed_geometric_median,
    "centered_clipping": _centered_clipping,
    "mda": _minimum_diameter,
}
_BACK: dict[str, Callable[[Rows, int, Weights], Weights]] = {
    "nnm": _unmixed,
    "arc": _unclipped,
    "clip": _unclipped_to_median,
    "bucketing": _from_buckets,
}
