"""scikit-learn's K-means in NumPy, for few points. Its labels equal scikit-learn's.

Importing scikit-learn takes longer than all other work of a short run. The algorithm here draws the
same random numbers and takes the same decisions, but its sums may differ in their last bits. A
decision that such a difference could change raises ``CloseDecision``; then scikit-learn decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

# Two numbers closer than this, relative to the scale of the data, may be ordered either way by
# rounding. In float32, where rounding is coarser, the margin is a multiple of its precision.
_MARGIN = 1e-9
# Roundings of a number in the steps of Lloyd, at least; as many as points in the sums of a cluster.
_ROUNDINGS = 80
# The starts are computed by the same operations as scikit-learn's, and so are rounded alike.
_ROUNDINGS_OF_STARTS = 8
# scikit-learn's tolerance for the movement of centres, relative to the variance of the points.
_TOLERANCE = 1e-4


class CloseDecision(Exception):
    """A decision of the algorithm is closer than rounding, or its rules do not cover the case."""


@dataclass(frozen=True)
class _Points:
    """The points of a fit.

    Attributes:
        rounded: the points minus their mean, in the type of the points.
        x: the same in float64.
        norms: squared lengths of ``x``.
        weights: weights of the points, in the type of the points.
    """

    rounded: Float[np.ndarray, "n d"]
    x: Float[np.ndarray, "n d"]
    norms: Float[np.ndarray, "n"]
    weights: Float[np.ndarray, "n"]

    def distances(self, centres: Float[np.ndarray, "K d"]) -> Float[np.ndarray, "K n"]:
        """Squared distances of all points from centres, in float64."""
        squared = -2 * (centres @ self.x.T)
        squared += np.einsum("ij,ij->i", centres, centres)[:, None]
        squared += self.norms
        return np.maximum(squared, 0)

    def margin(self, roundings: int) -> float:
        """Smallest relative difference of two numbers that so many roundings cannot turn around."""
        return max(_MARGIN, roundings * float(np.finfo(self.rounded.dtype).eps))


def lloyd_labels(
    points: Float[np.ndarray, "n d"],
    clusters: int,
    seed: int,
    restarts: int,
    max_iter: int,
    weights: Float[np.ndarray, "n"] | None,
) -> Int[np.ndarray, "n"]:
    """The labels of ``sklearn.cluster.KMeans``.

    Args:
        points: points, one per row, in float64 or float32.
        clusters: number of clusters.
        seed: seed of the starts.
        restarts: number of restarts; the best one is used.
        max_iter: maximum number of steps of each restart.
        weights: weights of the points; None: equal.

    Raises:
        CloseDecision: rounding could change the labels.
    """
    prepared = _prepared(points, weights)
    scale = float(prepared.norms.sum())
    if not np.isfinite(scale):
        raise CloseDecision
    margin = prepared.margin(max(_ROUNDINGS, len(points)))
    tolerance = float(points.var(axis=0).mean()) * _TOLERANCE
    rng = np.random.RandomState(seed)
    best: np.ndarray | None = None
    smallest = np.inf
    for _ in range(restarts):
        starts = _starts(prepared, clusters, rng)
        labels, inertia = _fit(
            points=prepared,
            centres=prepared.x[starts],
            max_iter=max_iter,
            tolerance=tolerance,
            margin=margin,
        )
        if best is None:
            best = labels
            smallest = inertia
        elif not _is_same(labels, best, clusters):
            _check_apart(inertia, smallest, margin * scale)
            if inertia < smallest:
                best = labels
                smallest = inertia
    assert best is not None  # there is at least one restart
    return best


def _prepared(points: Float[np.ndarray, "n d"], weights: Float[np.ndarray, "n"] | None) -> _Points:
    """The points and weights, rounded like scikit-learn's, which keeps the type of the points."""
    rounded = points - points.mean(axis=0)
    x = rounded.astype(np.float64)
    if weights is None:
        weights = np.ones(len(points))
    return _Points(
        rounded=rounded,
        x=x,
        norms=np.einsum("ij,ij->i", x, x),
        weights=weights.astype(points.dtype),
    )


def _starts(points: _Points, clusters: int, rng: np.random.RandomState) -> Int[np.ndarray, "K"]:
    """The first centres, by k-means++ with several candidates for each centre."""
    margin = points.margin(_ROUNDINGS_OF_STARTS)
    trials = 2 + int(np.log(clusters))
    weights = points.weights
    kind = weights.dtype
    chosen = [int(rng.choice(len(weights), p=weights / weights.sum()))]
    nearest = points.distances(points.x[chosen]).astype(kind)[0]
    total = nearest @ weights
    whole = float(points.norms @ weights)
    for _ in range(1, clusters):
        # A uniform number below the sum of all distances hits a point with probability proportional
        # to its distance.
        thresholds = rng.uniform(size=trials) * total
        cumulative = np.cumsum(weights * nearest)
        _check_apart(thresholds[:, None], cumulative, margin * float(total))
        candidates = np.minimum(np.searchsorted(cumulative, thresholds), len(nearest) - 1)
        distances = np.minimum(nearest, points.distances(points.x[candidates]).astype(kind))
        totals = (distances @ weights[:, None])[:, 0]
        best = int(totals.argmin())
        others = candidates != candidates[best]
        _check_apart(totals[others], totals[best], margin * whole)
        chosen.append(int(candidates[best]))
        nearest = distances[best]
        total = totals[best]
    return np.array(chosen)


def _fit(
    points: _Points,
    centres: Float[np.ndarray, "K d"],
    max_iter: int,
    tolerance: float,
    margin: float,
) -> tuple[Int[np.ndarray, "n"], float]:
    """Lloyd's steps from the first centres. Returns labels and the sum of squared distances.

    Args:
        points: the points.
        centres: the first centres.
        max_iter: maximum number of steps.
        tolerance: the steps end when the centres' squared movement is at most this.
        margin: relative difference that rounding cannot turn around.
    """
    scale = float(points.norms.max())
    labels = np.full(len(points.x), -1)
    for _ in range(max_iter):
        nearest = _nearest(points, centres, margin * scale)
        means = _means(points, nearest, len(centres))
        moved = float(((means - centres) ** 2).sum())
        centres = means
        if np.array_equal(nearest, labels):
            return labels, _inertia(points, centres, labels)
        labels = nearest
        _check_apart(moved**0.5, tolerance**0.5, margin * scale**0.5)
        if moved <= tolerance:
            break
    labels = _nearest(points, centres, margin * scale)
    return labels, _inertia(points, centres, labels)


def _nearest(
    points: _Points, centres: Float[np.ndarray, "K d"], margin: float
) -> Int[np.ndarray, "n"]:
    """The nearest centre of each point. Raises CloseDecision if another one is as near."""
    distances = points.distances(centres)
    if len(centres) > 1:
        two = np.partition(distances, 1, axis=0)
        _check_apart(two[0], two[1], margin)
    return distances.argmin(axis=0)


def _means(
    points: _Points, labels: Int[np.ndarray, "n"], clusters: int
) -> Float[np.ndarray, "K d"]:
    """The weighted mean of each cluster's points. Raises CloseDecision for an empty cluster, which
    scikit-learn moves to a distant point."""
    member = (labels == np.arange(clusters)[:, None]) * points.weights.astype(np.float64)
    sizes = member.sum(axis=1)
    if not sizes.all():
        raise CloseDecision
    return member @ points.x / sizes[:, None]


def _inertia(
    points: _Points, centres: Float[np.ndarray, "K d"], labels: Int[np.ndarray, "n"]
) -> float:
    """The weighted sum of squared distances of the points from their centres."""
    differences = points.x - centres[labels]
    return float(np.einsum("ij,ij->i", differences, differences) @ points.weights)


def _is_same(labels: Int[np.ndarray, "n"], others: Int[np.ndarray, "n"], clusters: int) -> bool:
    """Whether each cluster of the first labels lies within one cluster of the other labels."""
    pairs = np.unique(labels * clusters + others)
    return len(pairs) == len(np.unique(labels))


def _check_apart(a: Any, b: Any, margin: float) -> None:
    """Raise CloseDecision if two numbers that are compared, or any of two arrays, differ by no more
    than a margin."""
    if (np.abs(a - b) <= margin).any():
        raise CloseDecision
