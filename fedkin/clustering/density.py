"""Clustering by density: clusters are where points lie close, and a point that is near to none is noise.

Thin wrappers of scikit-learn. Distances are Euclidean, in float64, and all n x n are kept in memory.
Letters: n points of d numbers, m known points.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import MethodError, unknown

NOISE = -1

WAYS_WITH_NOISE = ("own", "nearest")


def dbscan(points: Float[np.ndarray, "n d"], eps: float | int, min_samples: int) -> Int[np.ndarray, "n"]:
    """Cluster labels by DBSCAN (Ester et al., KDD 1996); -1 is noise.

    A point with at least ``min_samples`` points at a distance of ``eps`` or less, itself counted, is a core point. Core
    points that are so near to each other share a cluster; another point that is so near to a core point joins the first
    such cluster. Labels are numbered by first appearance, from 0.

    Raises:
        MethodError: eps that is not a finite number above 0, min_samples below 1, or a point that is not finite.
    """
    from sklearn.cluster import DBSCAN

    if not (math.isfinite(eps) and eps > 0):
        raise MethodError(
            f"eps must be a finite distance above 0, got {eps}; fedkin.clustering.dbscan_eps helps to choose one"
        )
    check_min_samples(min_samples, least=1)
    between = euclidean(points)
    if not len(points):
        return np.zeros(0, np.int64)
    fit = DBSCAN(eps=float(eps), min_samples=min_samples, metric="precomputed")
    return by_first_appearance(fit.fit_predict(between))


def optics(points: Float[np.ndarray, "n d"], min_samples: int) -> Int[np.ndarray, "n"]:
    """Cluster labels by OPTICS (Ankerst et al., SIGMOD 1999), cut where it is steep; -1 is noise.

    It needs no eps. How steep is steep is scikit-learn's default, xi = 0.05. ``min_samples`` counts the point itself;
    fewer points than that are all noise. Labels are numbered by first appearance, from 0.

    Raises:
        MethodError: min_samples below 2, or a point that is not finite.
    """
    from sklearn.cluster import OPTICS

    check_min_samples(min_samples, least=2)
    between = euclidean(points)
    if len(points) < min_samples:
        return np.full(len(points), NOISE)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal points: a slope of x / 0 is as steep as can be
        return by_first_appearance(OPTICS(min_samples=min_samples, metric="precomputed").fit_predict(between))


def without_noise(points: Float[np.ndarray, "n d"], labels: Int[np.ndarray, "n"], how: str) -> Int[np.ndarray, "n"]:
    """The same labels where every point has a cluster.

    A point of noise becomes a cluster of its own, numbered after the others in the order of points (``own``), or joins
    the cluster of the nearest point that has one (``nearest``). Where all are noise, each is its own.

    Raises:
        MethodError: an unknown way, or a point that is not finite.
    """
    if how not in WAYS_WITH_NOISE:
        raise MethodError(unknown("way with noise", how, WAYS_WITH_NOISE))
    noise = labels == NOISE
    labels = labels.astype(np.int64)
    if how == "nearest" and not noise.all():
        labels[noise], _ = nearest(points[noise], points[~noise], labels[~noise])
    else:
        labels[noise] = labels.max(initial=NOISE) + 1 + np.arange(noise.sum())
    return labels


def nearest(
    points: Float[np.ndarray, "n d"], known: Float[np.ndarray, "m d"], labels: Int[np.ndarray, "m"]
) -> tuple[Int[np.ndarray, "n"], Float64[np.ndarray, "n"]]:
    """The label of the nearest known point, and how far that is; of several that are as near, the first.

    A known point of noise counts like any other: leave it out, or -1 is the answer of those that are next to it.

    Raises:
        MethodError: no known point, or a point that is not finite.
    """
    from scipy.spatial.distance import cdist

    if not len(known):
        raise MethodError("the nearest of no known points was asked for; at least 1 must have a cluster")
    _check_finite(points)
    _check_finite(known)
    distances = cdist(points.astype(np.float64), known.astype(np.float64))
    first = distances.argmin(axis=1)
    return labels[first].astype(np.int64), distances[np.arange(len(points)), first]


def gap(points: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    """Every point's distance to its nearest other point; infinite for a point that is alone.

    A client whose gap is far above those of the others is suspicious: nobody has data like that.

    Raises:
        MethodError: a point that is not finite.
    """
    between = euclidean(points)
    np.fill_diagonal(between, np.inf)
    return between.min(axis=1, initial=np.inf)


def euclidean(points: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n n"]:
    """Distances of all pairs, each from the differences themselves: equal points are at exactly 0.

    Raises:
        MethodError: a point that is not finite.
    """
    from scipy.spatial.distance import pdist, squareform

    _check_finite(points)
    return squareform(pdist(points.astype(np.float64))) if len(points) > 1 else np.zeros((len(points), len(points)))


def by_first_appearance(labels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The same partition with clusters numbered 0, 1, ... in the order of points; noise stays noise."""
    known = labels != NOISE
    _, first, inverse = np.unique(labels[known], return_index=True, return_inverse=True)
    numbered = np.full(len(labels), NOISE)
    numbered[known] = np.argsort(np.argsort(first))[inverse]
    return numbered


def same_partition(a: Int[np.ndarray, "n"], b: Int[np.ndarray, "n"]) -> bool:
    """Whether the same points are together, and the same are noise; numbers of clusters do not matter."""
    return np.array_equal(by_first_appearance(a), by_first_appearance(b))


def check_min_samples(min_samples: int, least: int) -> None:
    """Raises MethodError where fewer than ``least`` points would make a dense place."""
    if min_samples < least:
        raise MethodError(f"min_samples must be at least {least} (a point counts itself), got {min_samples}")


def _check_finite(points: Float[np.ndarray, "n d"]) -> None:
    broken = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(broken):
        raise MethodError(f"points must be finite, got others in row {broken[0]}; leave out the rows that have them")
