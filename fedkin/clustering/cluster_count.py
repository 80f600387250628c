"""How many clusters: five ways to ask. Letters: n points of d numbers, K clusters, ``most`` the largest K asked for.

Four of them look at one set of points and each has its way to be wrong; ``returning`` has a second, independent look at
every client, and needs no picture of what noise is like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.kmeans import kmeans_small
from fedkin.core.errors import MethodError

_NOISE = 1e-12  # of the first squared singular value: float32 updates know no weaker direction
_RESTARTS = 10  # of K-means; of the gap statistic, which needs it for every reference, half as many


@dataclass(frozen=True)
class Gap:
    """The gap statistic of K = 1 .. most: entry K - 1 is that of K clusters."""

    gap: Float64[np.ndarray, "most"]
    error: Float64[np.ndarray, "most"]  # s_K, the deviation over references times sqrt(1 + 1 / references)

    @property
    def clusters(self) -> int:
        """The smallest K with gap(K) >= gap(K + 1) - s(K + 1); the largest asked for where there is none."""
        enough = self.gap[:-1] >= self.gap[1:] - self.error[1:]
        return int(enough.argmax()) + 1 if enough.any() else len(self.gap)


def gap_statistic(points: Float[np.ndarray, "n d"], most: int, rng: np.random.Generator, references: int = 10) -> Gap:
    """How much closer points are to their cluster's centre than those of uniform noise would be, on a log scale
    (Tibshirani, Walther & Hastie, J. R. Statist. Soc. B 63, 2001).

    gap(K) = mean over references of log W_K(reference) - log W_K(points), with W_K the sum of squared distances from
    the centres that K-means finds. References are uniform in the box that the points fill along their principal axes
    (their choice b).

    Raises:
        MethodError: fewer distinct points than ``most``, or a ``most`` below 1.
    """
    _check(points, most)
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    rotated = centred @ axes.T
    low, high = rotated.min(axis=0), rotated.max(axis=0)
    noise = [_spreads(rng.uniform(low, high, rotated.shape), most, rng) for _ in range(references)]
    expected, deviation = np.mean(noise, axis=0), np.std(noise, axis=0)
    return Gap(expected - _spreads(rotated, most, rng), deviation * np.sqrt(1 + 1 / references))


def _spreads(points: Float64[np.ndarray, "n d"], most: int, rng: np.random.Generator) -> Float64[np.ndarray, "most"]:
    """log W_K for K = 1 .. most."""
    within = [_within(points, kmeans_small(points, clusters, rng, _RESTARTS // 2)) for clusters in range(1, most + 1)]
    return np.log(np.maximum(within, np.finfo(float).tiny))  # as many clusters as points leave nothing


def _within(points: Float64[np.ndarray, "n d"], labels: Int[np.ndarray, "n"]) -> float:
    return float(sum(((own - own.mean(axis=0)) ** 2).sum() for own in (points[labels == k] for k in np.unique(labels))))


def silhouettes(points: Float[np.ndarray, "n d"], most: int, rng: np.random.Generator) -> Float64[np.ndarray, "most"]:
    """Mean silhouette (Rousseeuw 1987) of what K-means finds with K = 1 .. most: how much nearer a point is to its own
    cluster than to the next, from -1 to 1. NaN for K = 1, of which it can say nothing.

    Raises:
        MethodError: fewer points than ``most`` + 1 or fewer distinct ones than ``most``, or a ``most`` below 1.
    """
    from sklearn.metrics import silhouette_score

    _check(points, most)
    if most >= len(points):
        raise MethodError(f"a silhouette needs more points than clusters, got {len(points)} points and {most} clusters")
    labels = [kmeans_small(points, clusters, rng, _RESTARTS) for clusters in range(2, most + 1)]
    return np.array([np.nan, *(float(silhouette_score(points, one)) for one in labels)])


def laplacian_spectrum(affinity: Float[np.ndarray, "n n"], values: int) -> Float64[np.ndarray, "values"]:
    """The smallest eigenvalues, ascending, of the normalised Laplacian I - D^(-1/2) A D^(-1/2) (Ng, Jordan & Weiss
    2002; von Luxburg 2007): as many are zero as there are parts that nothing connects. A point without any affinity is
    a part of its own.

    Raises:
        MethodError: affinities that are negative or not symmetric, or more values than points.
    """
    if affinity.min(initial=0) < 0 or not np.allclose(affinity, affinity.T, atol=1e-6):  # float32 cosines
        raise MethodError("affinities must be symmetric and none negative; clip cosines at zero")
    if not 1 <= values <= len(affinity):
        raise MethodError(f"{values} eigenvalues: it must be at least 1 and at most the points, {len(affinity)}")
    degree = affinity.sum(axis=1, dtype=np.float64)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(len(degree)), where=degree > 0)
    laplacian = np.diag((degree > 0).astype(float)) - affinity * np.outer(scale, scale)
    return np.clip(np.linalg.eigvalsh(laplacian)[:values], 0, None)


def largest_eigengap(spectrum: Float[np.ndarray, "values"]) -> int:
    """The K after which the next eigenvalue is farthest away, the first of equals (von Luxburg 2007, section 8.3)."""
    return int(np.diff(spectrum).argmax()) + 1


def merge_heights(points: Float[np.ndarray, "n d"], most: int) -> Float64[np.ndarray, "most"]:
    """Entry K - 1 is the height at which Ward's dendrogram goes from K + 1 clusters to K (zero where K = n).

    Raises:
        MethodError: fewer points than ``most``, or a ``most`` below 1.
    """
    from scipy.cluster.hierarchy import linkage

    _check_most(points, most)
    heights = linkage(points.astype(np.float64), "ward")[:, 2] if len(points) > 1 else np.zeros(0)
    return np.concatenate([heights[::-1], [0.0]])[:most]


def largest_jump(heights: Float[np.ndarray, "most"]) -> int:
    """The K of 2 .. most that a dendrogram keeps longest: the largest step up from the merge that made K clusters to
    the one that ends them. It cannot say 1."""
    return int((heights[:-1] - heights[1:]).argmax()) + 2


def returning(
    first: Float[np.ndarray, "n P"], second: Float[np.ndarray, "_ _"], most: int, rng: np.random.Generator
) -> Float64[np.ndarray, "2 most"]:
    """Who comes back: cluster one look at all clients, place their other look with the nearest centre, and take the
    share of a cluster's clients that come back to it, in the cluster where it is least. Row 0 clusters ``first``, row 1
    ``second``; column K - 1 is K clusters (all come back where K = 1).

    The looks must be independent given what a client is, such as updates from two halves of its data. Then a split
    that is there brings its clients back, and one of mere noise sends them either way: its smaller part gets back no
    more than half, on average. It is the prediction strength of Tibshirani & Walther (J. Comput. Graph. Statist. 14,
    2005), of clients where theirs is of pairs, because here each has two looks. K clusters are sought where K centres
    can differ: in the first K - 1 principal directions of the look that is clustered.

    Raises:
        MethodError: looks of different shape, fewer distinct points than ``most``, or a ``most`` below 1.
    """
    if first.shape != second.shape:
        raise MethodError(f"both looks must be of the same clients, got {first.shape} and {second.shape}")
    _check_most(first, most)
    pairs = ((first, second), (second, first))
    return np.array([[1.0, *_shares(seen, again, most, rng)] for seen, again in pairs])


def _shares(
    seen: Float[np.ndarray, "n P"], again: Float[np.ndarray, "n P"], most: int, rng: np.random.Generator
) -> list[float]:
    if most < 2:
        return []
    here, there = principal(seen, again, most - 1)
    return [_least_share(here[:, : K - 1], there[:, : K - 1], K, rng) for K in range(2, most + 1)]


def _least_share(
    here: Float64[np.ndarray, "n d"], there: Float64[np.ndarray, "n d"], clusters: int, rng: np.random.Generator
) -> float:
    if len(np.unique(here, axis=0)) < clusters:  # there are no so many kinds
        return 0.0
    labels = kmeans_small(here, clusters, rng, _RESTARTS)
    centres = np.stack([here[labels == k].mean(axis=0) for k in range(clusters)])
    placed = ((there[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return float(min((placed[labels == k] == k).mean() for k in range(clusters)))


def principal(
    seen: Float[np.ndarray, "n P"], again: Float[np.ndarray, "m P"], directions: int
) -> tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "m d"]]:
    """Both sets of points, each from its own mean, along the first principal directions of ``seen``. No P x P matrix is
    made: with G a = lambda a for the Gram matrix G of the n rows x, the direction is sum_i a_i x_i / sqrt(lambda)."""
    here, there = (rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64) for rows in (seen, again))
    values, vectors = np.linalg.eigh(here @ here.T)
    values, vectors = values[::-1][:directions], vectors[:, ::-1][:, :directions]
    known = values > _NOISE * values[0]
    scale = np.sqrt(np.divide(1, values, out=np.zeros_like(values), where=known))
    axes = here.T @ (vectors * scale)
    return here @ axes, there @ axes


def _check(points: Float[np.ndarray, "n d"], most: int) -> None:
    _check_most(points, most)
    if not np.isfinite(points).all():
        raise MethodError("points must be finite; leave out the rows that are not")


def _check_most(points: Float[np.ndarray, "n d"], most: int) -> None:
    if not 1 <= most <= len(points):
        raise MethodError(
            f"the number of clusters must be at least 1 and at most the points, {len(points)}; got {most}"
        )
