"""Choice of DBSCAN's eps, the maximum distance of neighbours, from the ranges of eps in which the
clusters do not change.

Shapes: n points of d numbers. Distances are computed as in ``density.dbscan``, so the bounds of the
ranges are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.clustering.density import NOISE, by_first_appearance, check_min_samples, euclidean
from fedkin.core.errors import MethodError

_MIN_BEND = 1e-9  # a bend below this share of a curve's height is a rounding error


@dataclass(frozen=True)
class EpsRange:
    """A range of eps in which DBSCAN gives the same partition.

    Attributes:
        low, high: the range, low <= eps < high, in the unit of the points.
        clusters, noise: numbers of clusters and of noise points.
        silhouette: mean silhouette (Rousseeuw 1987) over the points with a cluster. None if it is
            undefined (fewer than 2 clusters, or as many clusters as points) or was not requested.
        points: number of points.
    """

    low: float
    high: float
    clusters: int
    noise: int
    silhouette: float | None
    points: int


def k_distances(points: Float[np.ndarray, "n d"], min_samples: int) -> Float64[np.ndarray, "n"]:
    """The smallest eps at which each point is a core point, in ascending order.

    A core point has at least min_samples points within eps. The values are the sorted k-distance
    graph of the DBSCAN paper. A point counts itself, so its value is the distance to the
    (min_samples - 1)-th nearest other point. Values are infinite if there are fewer points than
    min_samples.

    Raises:
        MethodError: min_samples is below 1, or a point is not finite.
    """
    check_min_samples(min_samples, least=1)
    return np.sort(_core_distances(euclidean(points), min_samples))


def knee(curve: Float[np.ndarray, "n"]) -> float:
    """The value at which a curve bends: the first point with the largest distance from the straight
    line between the curve's ends.

    This is the idea of Kneedle (Satopaa et al., ICDCS workshops 2011), without smoothing. A
    straight curve has no bend (this includes a flat curve, and one or two values). The result is
    then the last value, at which all points of a k-distance graph are core points.

    Raises:
        MethodError: the curve has no values, or a value is not finite.
    """
    if not len(curve) or not np.isfinite(curve).all():
        invalid = np.count_nonzero(~np.isfinite(curve))
        raise MethodError(
            f"a knee needs a curve of at least 1 finite value; got {len(curve)} values, {invalid} "
            "of them not finite"
        )
    curve = curve.astype(np.float64)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    # The vertical distance is proportional to the distance from the straight line.
    away = np.abs(curve - chord)
    is_bent = away.max() > _MIN_BEND * np.abs(curve).max()
    return float(curve[away.argmax() if is_bent else -1])


def kneedle(curve: Float[np.ndarray, "n"]) -> int | None:
    """Position of the first knee of an ascending curve, searched from its upper end. None if there
    is no knee.

    This is Kneedle (Satopaa et al., ICDCS workshops 2011) without smoothing and with sensitivity 1.
    The curve is scaled to the unit square and flipped along both axes, so that its bend is a bulge.
    A local maximum of the distance from the diagonal is a knee if the distance then falls by more
    than the step between two values before it rises again. (A fall of exactly one step, as with two
    equal values, is not a knee; in the package ``kneed`` this depends on rounding.)
    """
    size = len(curve)
    if size < 2:
        return None
    rise = float(curve[-1] - curve[0])
    if not rise > 0:
        return None
    away = 1 - (curve[::-1] - curve[0]) / rise - np.linspace(0, 1, size)
    step = (1 + _MIN_BEND) / (size - 1)

    # Local maxima and minima of the distance from the diagonal.
    left = np.append(away[:1], away[:-1])
    right = np.append(away[1:], away[-1:])
    peaks = np.flatnonzero((away >= left) & (away >= right))
    troughs = np.flatnonzero((away <= left) & (away <= right))

    for peak, next_peak in zip(peaks, [*peaks[1:], size], strict=True):
        later = troughs[troughs >= peak]
        if not len(later):
            continue
        trough = later[0]
        if peak < trough < next_peak and away[trough] < away[peak] - step:
            return size - 1 - int(peak)
    return None


def eps_ranges(
    points: Float[np.ndarray, "n d"], min_samples: int, scored: int = 100
) -> list[EpsRange]:
    """All partitions that DBSCAN can find, with their eps ranges [low, high), ascending.

    The first range starts at 0 (all points are noise, unless points are equal). The last range ends
    at infinity (one cluster, unless there are fewer points than min_samples).

    The result is exact for any n, because only few of the n x n distances matter (see
    ``_partitions``). At most n * min_samples partitions are tried, each in time n * min_samples.
    Memory is a few times n x n. Each silhouette takes additional time n x n.

    Args:
        points: points, one per row.
        min_samples: DBSCAN's min_samples.
        scored: number of ranges with at least 2 clusters for which a silhouette is computed. These
            are the widest ranges (by high / low).

    Raises:
        MethodError: min_samples is below 1, or a point is not finite.
    """
    check_min_samples(min_samples, least=1)
    distances = euclidean(points)
    lows, partitions = _partitions(distances, min_samples)
    highs = [*lows[1:], math.inf]

    # Compute a silhouette for the widest ranges with at least 2 clusters.
    several = [i for i, labels in enumerate(partitions) if labels.max(initial=NOISE) > 0]
    several.sort(key=lambda i: -_width(lows[i], highs[i]))
    widest = set(several[:scored])

    ranges = []
    for i, labels in enumerate(partitions):
        ranges.append(
            EpsRange(
                low=lows[i],
                high=highs[i],
                clusters=int(labels.max(initial=NOISE)) + 1,
                noise=int(np.count_nonzero(labels == NOISE)),
                silhouette=_silhouette(distances, labels) if i in widest else None,
                points=len(labels),
            )
        )
    return ranges


def suggest_eps(
    ranges: Sequence[EpsRange], gap: float | int = 2, noise: float | int = 0.5
) -> float:
    """Suggest an eps, in the unit of the points, from the ranges of ``eps_ranges``.

    A range is a candidate if it has at least 2 clusters, high / low is at least ``gap``, at most a
    share ``noise`` of the points is noise, and clusters have at least two points on average. The
    candidate with the least noise is chosen, and among several the widest (by high / low). The
    result is its middle on a logarithmic scale, sqrt(low high), or high / 2 if the range starts at
    0.

    Without candidates, all points are treated as one cluster. The result is then sqrt(gap) times
    the smallest eps at which they form one. If this eps is 0, all points are equal, any eps works,
    and the result is 1.

    A few points in one or two dimensions may have wide ranges by chance, so inspect the ranges in
    that case.

    Args:
        ranges: result of ``eps_ranges``.
        gap: factor by which eps must be able to grow in a range, at least 1.
        noise: maximum share of noise points.

    Raises:
        MethodError: there are no ranges, ``gap`` is below 1, or there are fewer points than
            min_samples, so that all are noise for every eps.
    """
    if not gap >= 1:
        raise MethodError(
            f"gap, the factor by which eps can grow in a range, must be at least 1, got {gap}"
        )
    if not ranges or ranges[-1].clusters == 0:
        raise MethodError(
            "no eps gives a cluster, because there are fewer points than min_samples; use a "
            "smaller min_samples"
        )
    candidates = [r for r in ranges if _has_gap(r, gap, noise)]
    if not candidates:
        return ranges[-1].low * math.sqrt(gap) or 1.0
    best = min(candidates, key=lambda r: (r.noise, -_width(r.low, r.high)))
    # A range from 0 has no middle on a logarithmic scale.
    return math.sqrt(best.low) * math.sqrt(best.high) if best.low > 0 else best.high / 2


def _has_gap(eps_range: EpsRange, gap: float | int, noise: float | int) -> bool:
    """Whether ``suggest_eps`` may choose a range: it has at least 2 clusters with 2 points or more
    on average, little noise, and a large ratio of high to low."""
    clustered = eps_range.points - eps_range.noise
    return (
        1 < eps_range.clusters <= clustered / 2
        and eps_range.noise <= noise * eps_range.points
        and _width(eps_range.low, eps_range.high) >= gap
    )


def useful_range(points: Float[np.ndarray, "n d"], min_samples: int) -> tuple[float, float]:
    """The range (low, high) of useful eps: below low all points are noise, from high on they are
    one cluster.

    An eps in [low, high) separates points. The range is empty (low = high) for two points, or if
    all points are equal. Both bounds are infinite if there are fewer points than min_samples.

    Raises:
        MethodError: min_samples is below 1, or a point is not finite.
    """
    check_min_samples(min_samples, least=1)
    lows, partitions = _partitions(euclidean(points), min_samples)
    ends = [*lows, math.inf]
    starts_as_noise = (partitions[0] == NOISE).all()
    ends_as_noise = (partitions[-1] == NOISE).all()
    low = ends[1] if starts_as_noise else ends[0]
    high = ends[-1] if ends_as_noise else ends[-2]
    return low, high


def eps_advice(points: Float[np.ndarray, "n d"], eps: float | int, min_samples: int) -> str | None:
    """A text that tells the user the useful range of eps, if this eps does not separate points;
    otherwise None.

    Args:
        points: points, one per row.
        eps: DBSCAN's eps, in the unit of the points.
        min_samples: DBSCAN's min_samples.

    Raises:
        MethodError: as for ``useful_range``.
    """
    low, high = useful_range(points, min_samples)
    if low <= eps < high:
        return None
    result = "puts all clients into one cluster" if eps >= high else "makes all clients noise"
    if not low < high < math.inf:
        return f"eps = {eps:g} {result}, and no other eps would separate them"
    suggested = suggest_eps(eps_ranges(points, min_samples))
    hint = "there is no clear gap, so one cluster may be right"
    if suggested < high:
        hint = f"{suggested:.3g} is suggested"
    return f"eps = {eps:g} {result}; values from {low:.3g} to {high:.3g} separate them; {hint}"


def _width(low: float, high: float) -> float:
    """The width of a range of eps: the factor by which eps can grow in it."""
    return high / low if low > 0 else math.inf


def _core_distances(
    distances: Float64[np.ndarray, "n n"], min_samples: int
) -> Float64[np.ndarray, "n"]:
    """The smallest eps at which each point is a core point; infinite if there are fewer points than
    min_samples."""
    if len(distances) < min_samples:
        return np.full(len(distances), np.inf)
    return np.sort(distances, axis=1)[:, min_samples - 1]


def _partitions(
    distances: Float64[np.ndarray, "n n"], min_samples: int
) -> tuple[list[float], list[Int[np.ndarray, "n"]]]:
    """The eps values at which the partition changes, ascending from 0, and the labels from each
    value on.

    Points p and q are both core points, and neighbours, from eps = max(d_pq, core_p, core_q) on,
    with d_pq their distance and core_p the smallest eps at which p is a core point. With these
    distances, the clusters of core points are the components of a single-linkage tree cut at eps
    (Campello et al., PAKDD 2013). A partition can therefore change only at a height of this tree,
    or where a non-core point (with fewer than min_samples neighbours) becomes a neighbour of
    another core point. All of these values are tried.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    n = len(distances)
    if n < max(min_samples, 2):
        return [0.0], [np.full(n, NOISE if n < min_samples else 0)]
    cores = _core_distances(distances, min_samples)
    # Entry [p, q]: the smallest eps at which q is a core point and p its neighbour.
    reach = np.maximum(distances, cores)
    both_core = np.maximum(reach, cores[:, None])
    tree = linkage(squareform(both_core, checks=False), "single")

    # The eps values at which a partition may change. A point that is no core point yet has fewer
    # than min_samples neighbours, counting itself, so only its nearest points matter.
    near = np.argsort(distances, axis=1)[:, : min_samples - 1]
    steps = np.take_along_axis(reach, near, axis=1)
    into_reach = steps[steps < cores[:, None]]
    tried = np.unique(np.concatenate([[0.0], tree[:, 2], into_reach]))

    lows: list[float] = []
    partitions: list[Int[np.ndarray, "n"]] = []
    for eps in tried.tolist():
        components = fcluster(tree, eps, "distance")
        labels = _labels(components, cores <= eps, near, steps <= eps)
        if not partitions or not np.array_equal(labels, partitions[-1]):
            lows.append(eps)
            partitions.append(labels)
    return lows, partitions


def _labels(
    components: Int[np.ndarray, "n"],
    core: Bool[np.ndarray, "n"],
    near: Int[np.ndarray, "n k"],
    within: Bool[np.ndarray, "n k"],
) -> Int[np.ndarray, "n"]:
    """DBSCAN's labels: a core point has the label of its component, any other point the label of
    the first component that has a core point near it.

    Components are identified by their first core point, because DBSCAN visits the points in their
    order.
    """
    n = len(components)
    first_core = np.full(n + 1, n)
    np.minimum.at(first_core, components[core], np.flatnonzero(core))
    # n stands for a point without a cluster.
    owner = np.where(core, first_core[components], n)
    border = np.where(within, owner[near], n).min(axis=1, initial=n)
    owner = np.where(core, owner, border)
    return by_first_appearance(np.where(owner < n, owner, NOISE))


def _silhouette(
    distances: Float64[np.ndarray, "n n"], labels: Int[np.ndarray, "n"]
) -> float | None:
    """Mean silhouette over the points with a cluster; None if it is undefined (see
    ``EpsRange``)."""
    from sklearn.metrics import silhouette_score

    clustered = np.flatnonzero(labels != NOISE)
    labels = labels[clustered]
    if not 1 < len(np.unique(labels)) < len(clustered):
        return None
    distances = distances[np.ix_(clustered, clustered)]
    return float(silhouette_score(distances, labels, metric="precomputed"))
