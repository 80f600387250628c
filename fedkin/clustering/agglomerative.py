"""Agglomerative clustering: every row of the distance matrix (a point, such as a client) starts as
a cluster, and the nearest two clusters are merged until a criterion stops the merging."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.density import by_first_appearance
from fedkin.core.errors import MethodError, unknown

LINKAGES = ("complete", "average", "single", "ward")
MERGING = ("complete", "average", "single", "weighted")  # linkages of ``merge_up_to``
_SILHOUETTE = 0.25  # at or below this mean silhouette, the result is a single cluster
# Rounding may make eigenvalues of Euclidean distances negative, by up to this share of the largest.
_ROUNDING = 1e-6


def agglomerative(
    distances: Float[np.ndarray, "n n"],
    *,
    clusters: int | None = None,
    threshold: float | None = None,
    linkage: str = "complete",
) -> Int[np.ndarray, "n"]:
    """Cluster labels from the distances of all pairs of rows (points, such as clients), numbered by
    first appearance, from 0.

    Args:
        distances: symmetric distances. They may be negative (Sattler et al. 2020 use the negative
            similarity), except for ward.
        clusters: number of clusters at which to stop. Give either this or ``threshold``.
        threshold: clusters at this distance or more are not merged.
        linkage: the distance between two clusters: the maximum (``complete``), minimum (``single``)
            or mean (``average``) distance of their rows. ``ward`` (only for Euclidean distances) is
            the square root of twice the amount by which a merge increases the sum of squared
            distances from the centres.

    Raises:
        MethodError: both or neither of clusters and threshold are given; there are fewer points
            than clusters; the linkage is unknown; distances or threshold are not finite; or ward is
            used with distances that are not Euclidean.
    """
    from sklearn.cluster import AgglomerativeClustering

    _check(distances, clusters, threshold, linkage)
    if len(distances) < 2:
        return np.zeros(len(distances), np.int64)
    # All distances are shifted, because scikit-learn does not accept a negative threshold.
    lowest = min(float(distances.min()), 0)
    cut = None if threshold is None else max(threshold - lowest, 0)
    is_ward = linkage == "ward"
    fit = AgglomerativeClustering(
        clusters,  # pyright: ignore[reportArgumentType]
        distance_threshold=cut,
        metric="euclidean" if is_ward else "precomputed",
        linkage=linkage,
    )
    data = _points(distances) if is_ward else distances - lowest
    return by_first_appearance(fit.fit_predict(data))


def merge_up_to(
    distances: Float[np.ndarray, "n n"], threshold: float | int, linkage: str = "weighted"
) -> Int[np.ndarray, "n"]:
    """Cluster labels from merging the nearest two clusters while they are at most ``threshold``
    apart.

    Labels are numbered by first appearance.

    Args:
        distances: symmetric distances, finite and not negative. The diagonal is ignored.
        threshold: maximum distance for a merge (inclusive).
        linkage: ``complete``, ``average`` or ``single``, as for ``agglomerative``; or ``weighted``
            (WPGMA): the distance of a merged cluster to another one is the unweighted mean of the
            distances of the two clusters from which it was merged.

    Raises:
        MethodError: the linkage is unknown, or a distance is negative or not finite.
    """
    from scipy.cluster.hierarchy import fcluster
    from scipy.cluster.hierarchy import linkage as tree

    if linkage not in MERGING:
        raise MethodError(unknown("linkage", linkage, MERGING))
    if len(distances) < 2:
        return np.zeros(len(distances), np.int64)
    # SciPy takes the upper triangle of symmetric distances as one vector.
    upper = distances[np.triu_indices(len(distances), 1)].astype(np.float64)
    if not (np.isfinite(upper) & (upper >= 0)).all():
        raise MethodError(
            "distances must be finite and not negative; leave out points with other distances"
        )
    labels = fcluster(tree(upper, linkage), threshold, "distance")
    return by_first_appearance(labels.astype(np.int64))


def best_silhouette(
    distances: Float[np.ndarray, "n n"],
    linkage: str = "average",
    most: int | None = None,
    floor: float = _SILHOUETTE,
    largest: float = 1.0,
) -> Int[np.ndarray, "n"]:
    """Cluster labels from agglomerative clustering, with the number of clusters for which the mean
    silhouette (Rousseeuw 1987) is highest.

    The silhouette measures how much nearer a point is to its cluster than to the next cluster, from
    -1 to 1. Labels are numbered by first appearance. If the silhouette is at most ``floor``, there
    is one cluster.

    Args:
        distances: symmetric, finite distances.
        linkage: ``complete``, ``average`` or ``single``.
        most: maximum number of clusters; None: half of the number of points.
        floor: largest silhouette without clusters. At most 0.25, data have no substantial structure
            (Kaufman & Rousseeuw 1990).
        largest: larger distances count as this one. With 1, cosine distances treat orthogonal and
            opposite directions equally.
    """
    count = len(distances)
    if count < 4:
        return np.zeros(count, np.int64)
    capped = np.clip((distances + distances.T) / 2, 0, largest).astype(np.float64)
    np.fill_diagonal(capped, 0)
    cuts, silhouettes = silhouettes_of_cuts(capped, linkage, min(most or count // 2, count - 1))
    best = int(np.argmax(silhouettes))
    if not silhouettes[best] > floor:
        return np.zeros(count, np.int64)
    return by_first_appearance(cuts[:, best].astype(np.int64))


def silhouettes_of_cuts(
    distances: Float[np.ndarray, "n n"], linkage: str, most: int
) -> tuple[Int[np.ndarray, "n q"], list[float]]:
    """The labels for 2, 3, .. ``most`` clusters, one column each, and their mean silhouettes.

    Args:
        distances: symmetric distances with a diagonal of zeros.
        linkage: ``complete``, ``average`` or ``single``.
        most: maximum number of clusters, below the number of points.
    """
    from scipy.cluster.hierarchy import cut_tree
    from scipy.cluster.hierarchy import linkage as tree
    from sklearn.metrics import silhouette_score

    merges = tree(distances[np.triu_indices(len(distances), 1)], linkage)
    cuts = cut_tree(merges, list(range(2, most + 1)))
    silhouettes = [
        float(silhouette_score(distances, labels, metric="precomputed")) for labels in cuts.T
    ]
    return cuts, silhouettes


def _check(
    distances: Float[np.ndarray, "n n"], clusters: int | None, threshold: float | None, linkage: str
) -> None:
    """Raise MethodError for invalid arguments of ``agglomerative``."""
    if linkage not in LINKAGES:
        raise MethodError(unknown("linkage", linkage, LINKAGES))
    if (clusters is None) == (threshold is None):
        raise MethodError(
            f"give either clusters or a threshold, got clusters={clusters}, threshold={threshold}"
        )
    if threshold is not None and not math.isfinite(threshold):
        raise MethodError(
            f"the threshold must be a finite distance, got {threshold}; for one cluster use "
            "clusters=1"
        )
    if clusters is not None and not 1 <= clusters <= len(distances):
        raise MethodError(
            f"clusters must be from 1 to the number of points, {len(distances)}; got {clusters}"
        )
    if not np.isfinite(distances).all():
        invalid = np.flatnonzero(~np.isfinite(distances).all(axis=1))
        raise MethodError(
            f"distances must be finite, but those of point {invalid[0]} (from 0) are not; leave "
            "out such points"
        )


def _points(distances: Float[np.ndarray, "n n"]) -> Float64[np.ndarray, "n d"]:
    """Points in d = n - 1 dimensions whose distances are the given Euclidean ones (classical
    scaling, Torgerson 1952).

    Ward's method needs points, not distances. With D^2 the squared distances, the inner products of
    the centred points are the matrix -1/2 J D^2 J with J = I - 1/n, and the points are a square
    root of this matrix.
    """
    squared = np.square(distances, dtype=np.float64)
    inner = -(squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()) / 2
    values, vectors = np.linalg.eigh(inner)
    if distances.min() < 0 or values[0] < -_ROUNDING * values[-1]:
        raise MethodError(
            "linkage 'ward' needs Euclidean distances (l2), got others; use another linkage"
        )
    # n points span no more than n - 1 dimensions.
    lengths = np.sqrt(np.clip(values[1:], 0, None))
    return vectors[:, 1:] * lengths
