"""Five estimates of the number of clusters. Shapes: n points of d numbers, K clusters, at most
``max_clusters``.

Four of them take one set of points and each fails in its own way; ``split_half_stability`` takes
two independent sets of points of the same clients, and needs no model of noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans_small
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # of the first squared singular value: weaker directions are rounding of float32
_RESTARTS = 10  # of K-means; of the gap statistic, which needs it for every reference, half as many


@dataclass(frozen=True)
class Gap:
    """The gap statistic of K = 1 .. max_clusters: entry K - 1 is that of K clusters."""

    gap: Float64[np.ndarray, "max_clusters"]
    error: Float64[
        np.ndarray, "max_clusters"
    ]  # s_K, the deviation over references times sqrt(1 + 1 / references)

    @property
    def clusters(self) -> int:
        """The smallest K with gap(K) >= gap(K + 1) - s(K + 1); ``max_clusters`` where there is
        none."""
        enough = self.gap[:-1] >= self.gap[1:] - self.error[1:]
        return int(enough.argmax()) + 1 if enough.any() else len(self.gap)


def gap_statistic(
    points: Float[np.ndarray, "n d"],
    max_clusters: int,
    rng: np.random.Generator,
    references: int = 10,
) -> Gap:
    """The gap statistic (Tibshirani, Walther & Hastie, J. R. Statist. Soc. B 63, 2001): how much
    closer points are to their cluster's centre than those of uniform noise would be, on a log
    scale.

    gap(K) = mean over references of log W_K(reference) - log W_K(points), with W_K the sum of
    squared distances from the centres that K-means finds. References are uniform in the box that
    the points fill along their principal axes (their choice b).

    Args:
        points: one per row, finite.
        max_clusters: the largest K, at most the number of distinct points.
        rng: draws the references and the starts of K-means.
        references: how many.

    Raises:
        MethodError: too few distinct points for ``max_clusters``, or one below 1.
    """
    _check(points, max_clusters)
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    rotated = centred @ axes.T
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    noise = [
        _spreads(rng.uniform(low, high, rotated.shape), max_clusters, rng)
        for _ in range(references)
    ]
    expected, deviation = np.mean(noise, axis=0), np.std(noise, axis=0)
    return Gap(
        expected - _spreads(rotated, max_clusters, rng), deviation * np.sqrt(1 + 1 / references)
    )


def _spreads(
    points: Float64[np.ndarray, "n d"], max_clusters: int, rng: np.random.Generator
) -> Float64[np.ndarray, "max_clusters"]:
    """log W_K for K = 1 .. max_clusters."""
    within = [
        _within(points, kmeans_small(points, clusters, rng, _RESTARTS // 2))
        for clusters in range(1, max_clusters + 1)
    ]
    return np.log(
        np.maximum(within, np.finfo(float).tiny)
    )  # as many clusters as points leave nothing


def _within(points: Float64[np.ndarray, "n d"], labels: Int[np.ndarray, "n"]) -> float:
    return float(
        sum(
            ((own - own.mean(axis=0)) ** 2).sum()
            for own in (points[labels == k] for k in np.unique(labels))
        )
    )


def silhouettes(
    points: Float[np.ndarray, "n d"], max_clusters: int, rng: np.random.Generator
) -> Float64[np.ndarray, "max_clusters"]:
    """Mean silhouette (Rousseeuw 1987) of K-means with K = 1 .. max_clusters: how much nearer a
    point is to its own cluster than to the next, from -1 to 1; NaN for K = 1.

    Args:
        points: one per row, finite.
        max_clusters: the largest K, below the number of points and at most that of distinct ones.
        rng: draws the starts of K-means.

    Raises:
        MethodError: too few points for ``max_clusters``, or one below 1.
    """
    from sklearn.metrics import silhouette_score

    _check(points, max_clusters)
    if max_clusters >= len(points):
        raise MethodError(
            f"a silhouette needs more points than clusters, got {len(points)} points and "
            f"{max_clusters} clusters"
        )
    labels = [
        kmeans_small(points, clusters, rng, _RESTARTS) for clusters in range(2, max_clusters + 1)
    ]
    return np.array([np.nan, *(float(silhouette_score(points, one)) for one in labels)])


def laplacian_spectrum(
    affinity: Float[np.ndarray, "n n"], values: int
) -> Float64[np.ndarray, "values"]:
    """The smallest eigenvalues, ascending, of the normalised Laplacian I - D^(-1/2) A D^(-1/2) (Ng,
    Jordan & Weiss 2002; von Luxburg 2007): as many are zero as there are connected components. A
    point without any affinity is one.

    Raises:
        MethodError: affinities that are negative or not symmetric, or more values than points.
    """
    if affinity.min(initial=0) < 0 or not np.allclose(
        affinity, affinity.T, atol=1e-6
    ):  # float32 cosines
        raise MethodError("affinities must be symmetric and none negative; clip cosines at zero")
    if not 1 <= values <= len(affinity):
        raise MethodError(
            f"{values} eigenvalues: it must be at least 1 and at most the points, {len(affinity)}"
        )
    degree = affinity.sum(axis=1, dtype=np.float64)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(len(degree)), where=degree > 0)
    laplacian = np.diag((degree > 0).astype(float)) - affinity * np.outer(scale, scale)
    return np.clip(np.linalg.eigvalsh(laplacian)[:values], 0, None)


def largest_eigengap(spectrum: Float[np.ndarray, "values"]) -> int:
    """The K with the largest gap to the next eigenvalue, the first of equals (von Luxburg 2007,
    section 8.3)."""
    return int(np.diff(spectrum).argmax()) + 1


def merge_heights(
    points: Float[np.ndarray, "n d"], max_clusters: int
) -> Float64[np.ndarray, "max_clusters"]:
    """Entry K - 1 is the height at which Ward's dendrogram goes from K + 1 clusters to K (zero
    where K = n).

    Raises:
        MethodError: fewer points than ``max_clusters``, or a ``max_clusters`` below 1.
    """
    from scipy.cluster.hierarchy import linkage

    _check_max(points, max_clusters)
    heights = linkage(points.astype(np.float64), "ward")[:, 2] if len(points) > 1 else np.zeros(0)
    return np.concatenate([heights[::-1], [0.0]])[:max_clusters]


def largest_jump(heights: Float[np.ndarray, "max_clusters"]) -> int:
    """The K of 2 .. max_clusters that a dendrogram keeps longest: the largest step from the merge
    that made K clusters to the one that ends them. It cannot say 1."""
    return int((heights[:-1] - heights[1:]).argmax()) + 2


def split_half_stability(
    first: Float[np.ndarray, "n P"],
    second: Float[np.ndarray, "_ _"],
    max_clusters: int,
    rng: np.random.Generator,
) -> Float64[np.ndarray, "2 max_clusters"]:
    """Share of the clients of a cluster that return to it, in the cluster where it is least:
    clusters are formed from one set of points, and the other points of the same clients are
    assigned to the nearest centre.

    Both points of a client must be independent given what the client is, such as updates from two
    halves of its data. Then a true split brings its clients back, and one of noise sends them
    either way: its smaller part gets back no more than half, on average. It is the prediction
    strength of Tibshirani & Walther (J. Comput. Graph. Statist. 14, 2005), of clients where theirs
    is of pairs, because here each has two points. K clusters are sought where K centres can differ:
    in the first K - 1 principal directions of the points that are clustered.

    Args:
        first: one point per client.
        second: another one of the same clients.
        max_clusters: the largest K, at most the number of distinct points.
        rng: draws the starts of K-means.

    Returns:
        Row 0 clusters ``first``, row 1 ``second``; column K - 1 is K clusters (all return where K =
        1).

    Raises:
        MethodError: points of different shape, too few for ``max_clusters``, or one below 1.
    """
    if first.shape != second.shape:
        raise MethodError(
            f"both sets of points must be of the same clients, got {first.shape} and {second.shape}"
        )
    _check_max(first, max_clusters)
    pairs = ((first, second), (second, first))
    return np.array(
        [[1.0, *_shares(points, others, max_clusters, rng)] for points, others in pairs]
    )


def _shares(
    points: Float[np.ndarray, "n P"],
    others: Float[np.ndarray, "n P"],
    max_clusters: int,
    rng: np.random.Generator,
) -> list[float]:
    if max_clusters < 2:
        return []
    own, other = principal_projections(points, others, max_clusters - 1)
    return [
        _least_share(own[:, : K - 1], other[:, : K - 1], K, rng) for K in range(2, max_clusters + 1)
    ]


def _least_share(
    own: Float64[np.ndarray, "n d"],
    other: Float64[np.ndarray, "n d"],
    clusters: int,
    rng: np.random.Generator,
) -> float:
    if len(np.unique(own, axis=0)) < clusters:
        return 0.0
    labels = kmeans_small(own, clusters, rng, _RESTARTS)
    centres = np.stack([own[labels == k].mean(axis=0) for k in range(clusters)])
    assigned = ((other[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return float(min((assigned[labels == k] == k).mean() for k in range(clusters)))


def principal_projections(
    points: Float[np.ndarray, "n P"], others: Float[np.ndarray, "m P"], directions: int
) -> tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "m d"]]:
    """Two sets of points, each from its own mean, along the first principal directions of the
    first.

    No P x P matrix is made: with G a = lambda a for the Gram matrix G of the n rows x, the
    direction is sum_i a_i x_i / sqrt(lambda).

    Args:
        points: give the directions.
        others: are projected on the same directions.
        directions: how many.
    """
    own, other = (
        rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64) for rows in (points, others)
    )
    values, vectors = np.linalg.eigh(own @ own.T)
    values, vectors = values[::-1][:directions], vectors[:, ::-1][:, :directions]
    known = values > _NOISE * values[0]
    scale = np.sqrt(np.divide(1, values, out=np.zeros_like(values), where=known))
    axes = own.T @ (vectors * scale)
    return own @ axes, other @ axes


def _check(points: Float[np.ndarray, "n d"], max_clusters: int) -> None:
    _check_max(points, max_clusters)
    if not np.isfinite(points).all():
        raise MethodError("points must be finite; leave out the rows that are not")


def _check_max(points: Float[np.ndarray, "n d"], max_clusters: int) -> None:
    if not 1 <= max_clusters <= len(points):
        raise MethodError(
            f"the number of clusters must be at least 1 and at most the points, {len(points)}; "
            f"got {max_clusters}"
        )
