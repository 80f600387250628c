"""Density-based clustering: clusters are dense regions; points outside them are noise.

The functions wrap scikit-learn. Distances are Euclidean, in float64, and all n x n distances are in
memory. Shapes: n points of d numbers, m known points.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import MethodError, unknown

NOISE = -1

NOISE_POLICIES = ("own", "nearest")


def dbscan(
    points: Float[np.ndarray, "n d"], eps: float | int, min_samples: int
) -> Int[np.ndarray, "n"]:
    """Cluster labels by DBSCAN (Ester et al., KDD 1996); -1 is noise.

    A core point has at least ``min_samples`` points, including itself, within distance ``eps``.
    Core points within ``eps`` of each other share a cluster. Any other point within ``eps`` of a
    core point joins the first such cluster. Labels are numbered by first appearance, from 0.

    Args:
        points: points, one per row.
        eps: the maximum distance of neighbours, in the unit of the points.
        min_samples: minimum number of neighbours of a core point, including itself.

    Raises:
        MethodError: eps is not a finite number above 0, min_samples is below 1, or a point is not
            finite.
    """
    from sklearn.cluster import DBSCAN

    if not (math.isfinite(eps) and eps > 0):
        raise MethodError(
            f"eps must be a finite distance above 0, got {eps}; fedkin.clustering.dbscan_eps "
            "helps to choose one"
        )
    check_min_samples(min_samples, least=1)
    distances = euclidean(points)
    if not len(points):
        return np.zeros(0, np.int64)
    fit = DBSCAN(eps=float(eps), min_samples=min_samples, metric="precomputed")
    return by_first_appearance(fit.fit_predict(distances))


def optics(points: Float[np.ndarray, "n d"], min_samples: int) -> Int[np.ndarray, "n"]:
    """Cluster labels by OPTICS (Ankerst et al., SIGMOD 1999) with xi extraction; -1 is noise.

    It needs no eps, and xi is 0.05, scikit-learn's default. ``min_samples`` counts the point
    itself; if there are fewer points, all are noise. Labels are numbered by first appearance, from
    0.

    Raises:
        MethodError: min_samples is below 2, or a point is not finite.
    """
    from sklearn.cluster import OPTICS

    check_min_samples(min_samples, least=2)
    distances = euclidean(points)
    if len(points) < min_samples:
        return np.full(len(points), NOISE)
    fit = OPTICS(min_samples=min_samples, metric="precomputed")
    # Equal points cause divisions by zero in OPTICS.
    with np.errstate(divide="ignore", invalid="ignore"):
        return by_first_appearance(fit.fit_predict(distances))


def assign_noise(
    points: Float[np.ndarray, "n d"], labels: Int[np.ndarray, "n"], policy: str
) -> Int[np.ndarray, "n"]:
    """The labels with noise points assigned to clusters.

    Args:
        points: points, one per row.
        labels: cluster of each point, or NOISE.
        policy: ``own``: every noise point becomes a cluster. These clusters are numbered after the
            others, in the order of points. ``nearest``: every noise point joins the cluster of the
            nearest clustered point (as ``own`` if all points are noise).

    Raises:
        MethodError: the policy is unknown, or a point is not finite.
    """
    if policy not in NOISE_POLICIES:
        raise MethodError(unknown("noise policy", policy, NOISE_POLICIES))
    noise = labels == NOISE
    labels = labels.astype(np.int64)
    if policy == "nearest" and not noise.all():
        labels[noise], _ = nearest_label(points[noise], points[~noise], labels[~noise])
    else:
        # Every noise point becomes a cluster; numbers continue after the largest label.
        labels[noise] = labels.max(initial=NOISE) + 1 + np.arange(noise.sum())
    return labels


def nearest_label(
    points: Float[np.ndarray, "n d"], known: Float[np.ndarray, "m d"], labels: Int[np.ndarray, "m"]
) -> tuple[Int[np.ndarray, "n"], Float64[np.ndarray, "n"]]:
    """The label of each point's nearest known point (the first of ties), and its distance.

    Args:
        points: points, one per row.
        known: points with labels. Leave out noise points, because points near them would get -1.
        labels: labels of the known points.

    Raises:
        MethodError: there are no known points, or a point is not finite.
    """
    from scipy.spatial.distance import cdist

    if not len(known):
        raise MethodError(
            "no known point has a label, so no point can get the label of the nearest one; give at "
            "least 1 known point"
        )
    _check_finite(points)
    _check_finite(known)
    distances = cdist(points.astype(np.float64), known.astype(np.float64))
    nearest = distances.argmin(axis=1)
    return labels[nearest].astype(np.int64), distances[np.arange(len(points)), nearest]


def nearest_neighbour_distance(points: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    """Distance of each point to its nearest other point; infinite for a single point.

    A client with a large distance has no client with similar data, which is suspicious.

    Raises:
        MethodError: a point is not finite.
    """
    distances = euclidean(points)
    np.fill_diagonal(distances, np.inf)
    return distances.min(axis=1, initial=np.inf)


def euclidean(points: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n n"]:
    """Euclidean distances of all pairs of points. They are computed from differences, so that equal
    points have distance exactly 0.

    Raises:
        MethodError: a point is not finite.
    """
    from scipy.spatial.distance import pdist, squareform

    _check_finite(points)
    if len(points) < 2:
        return np.zeros((len(points), len(points)))
    return squareform(pdist(points.astype(np.float64)))


def by_first_appearance(labels: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The same partition with clusters numbered by first appearance, from 0; noise stays noise."""
    clustered = labels != NOISE
    _, first, inverse = np.unique(labels[clustered], return_index=True, return_inverse=True)
    order_of_appearance = np.argsort(np.argsort(first))
    numbered = np.full(len(labels), NOISE)
    numbered[clustered] = order_of_appearance[inverse]
    return numbered


def same_partition(a: Int[np.ndarray, "n"], b: Int[np.ndarray, "n"]) -> bool:
    """Whether two label arrays have the same clusters and noise, up to cluster numbers."""
    return np.array_equal(by_first_appearance(a), by_first_appearance(b))


def check_min_samples(min_samples: int, least: int) -> None:
    """Raise MethodError if DBSCAN's or OPTICS' parameter min_samples is below ``least``."""
    if min_samples < least:
        raise MethodError(
            f"min_samples must be at least {least} (a point counts itself), got {min_samples}"
        )


def _check_finite(points: Float[np.ndarray, "n d"]) -> None:
    """Raise MethodError for a point that is not finite."""
    invalid = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(invalid):
        raise MethodError(
            f"points must be finite, but point {invalid[0]} (from 0) holds NaN or infinity; "
            "leave out such points"
        )
