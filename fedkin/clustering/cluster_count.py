"""Five criteria for the number of clusters in a set of points.

Shapes: n points of d numbers, K clusters, at most ``max_clusters``.

Four criteria use one set of points, and fail in different situations. ``split_half_stability`` uses
two independent points of each client. It sees from their differences how noisy points are, so it
needs no assumption about the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans_small
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # directions below this share of the first squared singular value are rounding noise
_RESTARTS = 10  # restarts of K-means; the gap statistic uses half, as it has many references


@dataclass(frozen=True)
class Gap:
    """The gap statistic for 1 .. max_clusters clusters: entry K - 1 of each array is for K
    clusters."""

    gap: Float64[np.ndarray, "max_clusters"]
    # s_K: standard deviation over references, times sqrt(1 + 1 / references).
    error: Float64[np.ndarray, "max_clusters"]

    @property
    def clusters(self) -> int:
        """The estimated number of clusters: the smallest K with gap(K) >= gap(K + 1) - s(K + 1);
        ``max_clusters`` if there is none."""
        enough = self.gap[:-1] >= self.gap[1:] - self.error[1:]
        return int(enough.argmax()) + 1 if enough.any() else len(self.gap)


def gap_statistic(
    points: Float[np.ndarray, "n d"],
    max_clusters: int,
    rng: np.random.Generator,
    references: int = 10,
) -> Gap:
    """The gap statistic (Tibshirani, Walther & Hastie, J. R. Statist. Soc. B 63, 2001).

    It compares, on a log scale, how close the points and uniform noise are to the centres of their
    clusters.

    gap(K) = mean over references of log W_K(reference) - log W_K(points), with W_K the sum of
    squared distances from the centres that K-means finds. References are uniform in the bounding
    box of the points along their principal axes (choice b of the paper).

    Args:
        points: finite points, one per row.
        max_clusters: the largest K, at most the number of distinct points.
        rng: random generator of the references and the starts of K-means.
        references: number of references.

    Raises:
        MethodError: there are too few distinct points for ``max_clusters``, or ``max_clusters`` is
            below 1.
    """
    _check(points, max_clusters)
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    rotated = centred @ axes.T

    # The spreads of uniform noise in the bounding box of the points.
    low = rotated.min(axis=0)
    high = rotated.max(axis=0)
    noise = [
        _spreads(rng.uniform(low, high, rotated.shape), max_clusters, rng)
        for _ in range(references)
    ]
    expected = np.mean(noise, axis=0)
    deviation = np.std(noise, axis=0)

    return Gap(
        gap=expected - _spreads(rotated, max_clusters, rng),
        error=deviation * np.sqrt(1 + 1 / references),
    )


def _spreads(
    points: Float64[np.ndarray, "n d"], max_clusters: int, rng: np.random.Generator
) -> Float64[np.ndarray, "max_clusters"]:
    """log W_K for K = 1 .. max_clusters clusters, where W_K is the sum of squared distances from
    the centres that K-means finds."""
    within = [
        _within(points, kmeans_small(points, clusters, rng, _RESTARTS // 2))
        for clusters in range(1, max_clusters + 1)
    ]
    # With as many clusters as points the sum is 0, which has no logarithm.
    return np.log(np.maximum(within, np.finfo(float).tiny))


def _within(points: Float64[np.ndarray, "n d"], labels: Int[np.ndarray, "n"]) -> float:
    """W_K of the gap statistic: the sum of squared distances of points from the centres of their
    clusters."""
    total = 0
    for k in np.unique(labels):
        members = points[labels == k]
        total += ((members - members.mean(axis=0)) ** 2).sum()
    return float(total)


def silhouettes(
    points: Float[np.ndarray, "n d"], max_clusters: int, rng: np.random.Generator
) -> Float64[np.ndarray, "max_clusters"]:
    """Mean silhouette (Rousseeuw 1987) of K-means with K = 1 .. max_clusters.

    The silhouette measures how much nearer a point is to its cluster than to the next cluster, from
    -1 to 1. It is NaN for K = 1.

    Args:
        points: finite points, one per row.
        max_clusters: the largest K, below the number of points and at most the number of distinct
            points.
        rng: random generator of the starts of K-means.

    Raises:
        MethodError: there are too few points for ``max_clusters``, or ``max_clusters`` is below 1.
    """
    from sklearn.metrics import silhouette_score

    _check(points, max_clusters)
    if max_clusters >= len(points):
        raise MethodError(
            f"a silhouette needs more points than clusters, got {len(points)} points and "
            f"{max_clusters} clusters"
        )
    # The silhouette of a single cluster is undefined, so entry 0 is NaN.
    scores = [np.nan]
    for clusters in range(2, max_clusters + 1):
        labels = kmeans_small(points, clusters, rng, _RESTARTS)
        scores.append(float(silhouette_score(points, labels)))
    return np.array(scores)


def laplacian_spectrum(
    affinity: Float[np.ndarray, "n n"], values: int
) -> Float64[np.ndarray, "values"]:
    """The smallest eigenvalues, ascending, of the normalised Laplacian I - D^(-1/2) A D^(-1/2).

    The number of zero eigenvalues is the number of connected components of the graph of affinities.
    A point without any affinity is a component. Source: Ng, Jordan & Weiss 2002; von Luxburg 2007.

    Raises:
        MethodError: affinities are negative or not symmetric, or ``values`` exceeds the number of
            points.
    """
    # The tolerance allows for rounding of cosines in float32.
    is_symmetric = np.allclose(affinity, affinity.T, atol=1e-6)
    if affinity.min(initial=0) < 0 or not is_symmetric:
        raise MethodError("affinities must be symmetric and none negative; clip cosines at zero")
    if not 1 <= values <= len(affinity):
        raise MethodError(
            f"the number of eigenvalues must be from 1 to the number of points, {len(affinity)}; "
            f"got {values}"
        )
    degree = affinity.sum(axis=1, dtype=np.float64)
    # A point without affinity has degree 0. Its row is then zero, so that it adds an eigenvalue 0,
    # as every component does.
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(len(degree)), where=degree > 0)
    laplacian = np.diag((degree > 0).astype(float)) - affinity * np.outer(scale, scale)
    return np.clip(np.linalg.eigvalsh(laplacian)[:values], 0, None)


def largest_eigengap(spectrum: Float[np.ndarray, "values"]) -> int:
    """Number of clusters by the eigengap: the K with the largest gap between the K-th eigenvalue
    and the next one; the smallest K of ties (von Luxburg 2007, section 8.3)."""
    return int(np.diff(spectrum).argmax()) + 1


def merge_heights(
    points: Float[np.ndarray, "n d"], max_clusters: int
) -> Float64[np.ndarray, "max_clusters"]:
    """The heights of merges in Ward's dendrogram. Entry K - 1 of the array is the height of the
    merge from K + 1 clusters to K (zero for K = n).

    Raises:
        MethodError: there are fewer points than ``max_clusters``, or ``max_clusters`` is below 1.
    """
    from scipy.cluster.hierarchy import linkage

    _check_max(points, max_clusters)
    heights = linkage(points.astype(np.float64), "ward")[:, 2] if len(points) > 1 else np.zeros(0)
    return np.concatenate([heights[::-1], [0.0]])[:max_clusters]


def largest_jump(heights: Float[np.ndarray, "max_clusters"]) -> int:
    """Number of clusters by Ward's dendrogram: the K from 2 to max_clusters that persists over the
    largest range of heights.

    For this K, the difference in height between the merge that forms K clusters and the next merge
    is largest. The estimate is never 1.
    """
    return int((heights[:-1] - heights[1:]).argmax()) + 2


def split_half_stability(
    first: Float[np.ndarray, "n P"],
    second: Float[np.ndarray, "_ _"],
    max_clusters: int,
    rng: np.random.Generator,
) -> Float64[np.ndarray, "2 max_clusters"]:
    """Split-half stability: whether clients join the same cluster by two independent points.

    Clusters are formed from one point of each client. Then the other point of each client is
    assigned to the nearest centre. The stability is the share of a cluster's clients that are
    assigned to this cluster again; the minimum over clusters.

    The two points of a client must be independent given its distribution, such as updates from two
    halves of its data. Then the clients of a true cluster are assigned to it again. If K is too
    large, a true cluster is split into parts that differ only by noise. Its clients are then
    assigned to one of these parts at random. So on average at most half of the smaller part's
    clients are assigned to it again. K clusters are formed in the first K - 1 principal directions
    of the clustered points, in which K centres can differ.

    This is the prediction strength of Tibshirani & Walther (J. Comput. Graph. Statist. 14, 2005),
    for single clients instead of pairs, because each client has two points here.

    Args:
        first: one point for each client.
        second: a second point for each client, in the same order.
        max_clusters: the largest K, at most the number of distinct points.
        rng: random generator of the starts of K-means.

    Returns:
        The stabilities. In row 0, clusters are formed from the points in ``first``; in row 1, from
        those in ``second``. Column K - 1 is for K clusters; for K = 1 the stability is 1.

    Raises:
        MethodError: the points have different shapes, there are too few for ``max_clusters``, or
            ``max_clusters`` is below 1.
    """
    if first.shape != second.shape:
        raise MethodError(
            f"both sets of points must belong to the same clients, got shapes {first.shape} and "
            f"{second.shape}"
        )
    _check_max(first, max_clusters)
    by_first = _shares(first, second, max_clusters, rng)
    by_second = _shares(second, first, max_clusters, rng)
    return np.array([by_first, by_second])


def _shares(
    clustered: Float[np.ndarray, "n P"],
    returning: Float[np.ndarray, "n P"],
    max_clusters: int,
    rng: np.random.Generator,
) -> list[float]:
    """For K = 1 .. max_clusters, the share of a cluster's clients that return to it when they are
    assigned by their points in ``returning``; the minimum over clusters."""
    shares = [1.0]
    if max_clusters < 2:
        return shares
    # K centres span at most K - 1 directions, so more directions would only add noise.
    points, returned = principal_projections(clustered, returning, max_clusters - 1)
    for clusters in range(2, max_clusters + 1):
        directions = clusters - 1
        share = _least_share(points[:, :directions], returned[:, :directions], clusters, rng)
        shares.append(share)
    return shares


def _least_share(
    points: Float64[np.ndarray, "n d"],
    returned: Float64[np.ndarray, "n d"],
    clusters: int,
    rng: np.random.Generator,
) -> float:
    """The share of a cluster's clients that return to it when their points in ``returned`` are
    assigned to the nearest centre; the minimum over clusters."""
    if len(np.unique(points, axis=0)) < clusters:
        return 0.0
    labels = kmeans_small(points, clusters, rng, _RESTARTS)
    centres = np.stack([points[labels == k].mean(axis=0) for k in range(clusters)])
    nearest = ((returned[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return float(min((nearest[labels == k] == k).mean() for k in range(clusters)))


def principal_projections(
    points: Float[np.ndarray, "n P"], others: Float[np.ndarray, "m P"], directions: int
) -> tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "m d"]]:
    """Project two centred sets of points on the first principal directions of the first set.

    No P x P matrix is formed. With G a = lambda a for the Gram matrix G of the n points x_i, the
    direction is sum_i a_i x_i / sqrt(lambda).

    Args:
        points: points that define the directions.
        others: points that are projected on the same directions.
        directions: number of directions.
    """
    centred = _centred(points)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = values[::-1][:directions]
    vectors = vectors[:, ::-1][:, :directions]
    is_direction = values > _NOISE * values[0]
    scale = np.sqrt(np.divide(1, values, out=np.zeros_like(values), where=is_direction))
    axes = centred.T @ (vectors * scale)
    return centred @ axes, _centred(others) @ axes


def _centred(rows: Float[np.ndarray, "n P"]) -> Float64[np.ndarray, "n P"]:
    """The rows (points) minus their mean."""
    return rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)


def _check(points: Float[np.ndarray, "n d"], max_clusters: int) -> None:
    """Raise MethodError for an impossible number of clusters or nonfinite points."""
    _check_max(points, max_clusters)
    if not np.isfinite(points).all():
        raise MethodError("points must be finite; leave out points that are not finite")


def _check_max(points: Float[np.ndarray, "n d"], max_clusters: int) -> None:
    """Raise MethodError for a number of clusters below 1 or above the number of points."""
    if not 1 <= max_clusters <= len(points):
        raise MethodError(
            f"the number of clusters must be from 1 to the number of points, {len(points)}; "
            f"got {max_clusters}"
        )
