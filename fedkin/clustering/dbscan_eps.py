"""Choice of DBSCAN's eps: the distances at which its result changes, and the wide ranges in which
it does not.

Shapes: n points of d numbers. Distances are computed as in ``density.dbscan``, so the ends of the
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

_MIN_BEND = 1e-9  # of the height of a curve: a smaller bend is rounding


@dataclass(frozen=True)
class EpsRange:
    """A range of eps in which DBSCAN gives one and the same partition.

    Attributes:
        low, high: the range, low <= eps < high, in the unit of the points.
        clusters, noise: how many clusters, and how many points have none.
        silhouette: mean silhouette (Rousseeuw 1987) over the points that have a cluster; None where
            it is undefined (fewer than 2 clusters, or as many clusters as points), and where it was
            not asked for.
        points: how many points there are.
    """

    low: float
    high: float
    clusters: int
    noise: int
    silhouette: float | None
    points: int


def k_distances(points: Float[np.ndarray, "n d"], min_samples: int) -> Float64[np.ndarray, "n"]:
    """The lowest eps at which each point is a core point, ascending: the sorted k-distance graph of
    the DBSCAN paper.

    It is the distance to the (min_samples - 1)-th nearest other point, because a point counts
    itself; infinite where there are not as many points.

    Raises:
        MethodError: min_samples below 1, or a point that is not finite.
    """
    check_min_samples(min_samples, least=1)
    return np.sort(_core_distances(euclidean(points), min_samples))


def knee(curve: Float[np.ndarray, "n"]) -> float:
    """The value where a curve bends: the largest distance from the chord between its ends, the
    first of several.

    The idea of Kneedle (Satopaa et al., ICDCS workshops 2011), without its smoothing. A straight
    curve (a flat one, one or two values) does not bend: its last value is returned, where all of a
    k-distance graph are core.

    Raises:
        MethodError: no value, or one that is not finite.
    """
    if not len(curve) or not np.isfinite(curve).all():
        invalid = np.count_nonzero(~np.isfinite(curve))
        raise MethodError(
            f"a knee needs a curve of finite values, at least 1; got {len(curve)}, {invalid} not "
            "finite"
        )
    curve = curve.astype(np.float64)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    # In proportion to the distance from the chord
    away = np.abs(curve - chord)
    is_bent = away.max() > _MIN_BEND * np.abs(curve).max()
    return float(curve[away.argmax() if is_bent else -1])


def kneedle(curve: Float[np.ndarray, "n"]) -> int | None:
    """Position of the first knee of an ascending curve, from its upper end, by Kneedle (Satopaa et
    al., ICDCS workshops 2011) without smoothing and with sensitivity 1; None where it has none.

    The curve is scaled to the unit square and turned upside down and around, so that its bend is a
    bulge. A local maximum of its distance from the diagonal is a knee if that falls by more than
    the step from one value to the next before it rises again. (A fall of exactly one step, as two
    equal values have, is none; the package ``kneed`` leaves that to rounding.)
    """
    size = len(curve)
    if size < 2:
        return None
    rise = float(curve[-1] - curve[0])
    if not rise > 0:
        return None
    away = 1 - (curve[::-1] - curve[0]) / rise - np.linspace(0, 1, size)
    step = (1 + _MIN_BEND) / (size - 1)

    # Local maxima and minima of the distance from the diagonal
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
    """All partitions that DBSCAN can find, each with its eps from low (included) to high
    (excluded), ascending.

    The first starts at 0 (all noise, unless points are equal), the last ends at infinity (one
    cluster, unless there are fewer points than min_samples). Exact for any n, because few of the n
    x n distances matter (see ``_partitions``): at most n min_samples partitions are tried, each in
    time n min_samples, and memory is a few times n x n. A silhouette costs n x n more.

    Args:
        points: one per row.
        min_samples: of DBSCAN.
        scored: how many ranges with 2 clusters or more have a silhouette: the widest (high / low).

    Raises:
        MethodError: min_samples below 1, or a point that is not finite.
    """
    check_min_samples(min_samples, least=1)
    distances = euclidean(points)
    lows, partitions = _partitions(distances, min_samples)
    highs = [*lows[1:], math.inf]

    # The widest ranges with 2 clusters or more have a silhouette.
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
    """One eps, in the unit of the points, from the ranges of ``eps_ranges``.

    The rule: points have clusters where there is a gap between them, which is a range of 2 clusters
    or more in which eps can grow ``gap``-fold (high / low) while at most a share ``noise`` of the
    points is noise and the clusters have two points or more on average. Of such ranges take those
    with the least noise, of these the widest (high / low), and of this one the middle on a
    logarithmic scale, sqrt(low high); half its high where it starts at 0. Where no range has a gap
    all points are one cluster: sqrt(gap) times the lowest eps at which they are; 1 where that is 0,
    for the points are all equal and any eps will do.

    A few points on a line have gaps by chance: with points of one or two numbers, see the ranges.

    Args:
        ranges: of ``eps_ranges``.
        gap: how many times eps must be able to grow in a range, at least 1.
        noise: the largest share of the points that may be noise.

    Raises:
        MethodError: no ranges, a gap below 1, or fewer points than min_samples, which are noise for
            every eps.
    """
    if not gap >= 1:
        raise MethodError(
            f"gap is how many times eps can grow in a range: it must be at least 1, got {gap}"
        )
    if not ranges or ranges[-1].clusters == 0:
        raise MethodError(
            "no eps makes a cluster: there are fewer points than min_samples; take a smaller one"
        )
    candidates = [r for r in ranges if _has_gap(r, gap, noise)]
    if not candidates:
        return ranges[-1].low * math.sqrt(gap) or 1.0
    best = min(candidates, key=lambda r: (r.noise, -_width(r.low, r.high)))
    return math.sqrt(best.low) * math.sqrt(best.high) if best.low > 0 else best.high / 2


def _has_gap(eps_range: EpsRange, gap: float | int, noise: float | int) -> bool:
    """Whether a range has 2 clusters or more, of 2 points on average, little noise, and a gap."""
    clustered = eps_range.points - eps_range.noise
    return (
        1 < eps_range.clusters <= clustered / 2
        and eps_range.noise <= noise * eps_range.points
        and _width(eps_range.low, eps_range.high) >= gap
    )


def useful_range(points: Float[np.ndarray, "n d"], min_samples: int) -> tuple[float, float]:
    """(low, high): below low every eps makes noise of all points, from high on one cluster of all.

    An eps in [low, high) separates points. Empty (low = high) for two points, or where all are
    equal; both infinite where there are fewer points than min_samples.

    Raises:
        MethodError: min_samples below 1, or a point that is not finite.
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
    """A message about an eps that separates no points, with the useful range; None where it does.

    Args:
        points: one per row.
        eps: of DBSCAN, in the unit of the points.
        min_samples: of DBSCAN.

    Raises:
        MethodError: as ``useful_range``.
    """
    low, high = useful_range(points, min_samples)
    if low <= eps < high:
        return None
    result = "one cluster of all clients" if eps >= high else "noise of all clients"
    if not low < high < math.inf:
        return f"eps = {eps:g} makes {result}, and no other would separate them"
    suggested = suggest_eps(eps_ranges(points, min_samples))
    hint = "no gap is clear, so that one cluster may be right"
    if suggested < high:
        hint = f"{suggested:.3g} is suggested"
    return (
        f"eps = {eps:g} makes {result}; they are separated from {low:.3g} up to {high:.3g}; {hint}"
    )


def _width(low: float, high: float) -> float:
    """How many times eps can grow in a range."""
    return high / low if low > 0 else math.inf


def _core_distances(
    distances: Float64[np.ndarray, "n n"], min_samples: int
) -> Float64[np.ndarray, "n"]:
    """The lowest eps at which each point is a core point; infinite where there are few points."""
    if len(distances) < min_samples:
        return np.full(len(distances), np.inf)
    return np.sort(distances, axis=1)[:, min_samples - 1]


def _partitions(
    distances: Float64[np.ndarray, "n n"], min_samples: int
) -> tuple[list[float], list[Int[np.ndarray, "n"]]]:
    """The eps at which the partition becomes another, ascending from 0, and the labels from there
    on.

    Two points are core and near each other from eps = max(d_pq, core_p, core_q) on. By these
    distances, clusters of core points are the components of a single-linkage tree cut at eps
    (Campello et al., PAKDD 2013). So a partition can change only at a height of that tree, or where
    a point that is not core (fewer than min_samples points are near it) comes into the reach of
    another core point. All of these are tried.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    n = len(distances)
    if n < max(min_samples, 2):
        return [0.0], [np.full(n, NOISE if n < min_samples else 0)]
    cores = _core_distances(distances, min_samples)
    # [p, q]: the eps from which q is core, and p near it
    reach = np.maximum(distances, cores)
    both_core = np.maximum(reach, cores[:, None])
    tree = linkage(squareform(both_core, checks=False), "single")

    # eps at which a partition may change
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

    Components are identified by their first core point, because DBSCAN goes through the points in
    their order.
    """
    n = len(components)
    first_core = np.full(n + 1, n)
    np.minimum.at(first_core, components[core], np.flatnonzero(core))
    owner = np.where(core, first_core[components], n)
    border = np.where(within, owner[near], n).min(axis=1, initial=n)
    owner = np.where(core, owner, border)
    return by_first_appearance(np.where(owner < n, owner, NOISE))


def _silhouette(
    distances: Float64[np.ndarray, "n n"], labels: Int[np.ndarray, "n"]
) -> float | None:
    """Mean silhouette over the points that have a cluster; None where it is undefined."""
    from sklearn.metrics import silhouette_score

    clustered = np.flatnonzero(labels != NOISE)
    labels = labels[clustered]
    if not 1 < len(np.unique(labels)) < len(clustered):
        return None
    distances = distances[np.ix_(clustered, clustered)]
    return float(silhouette_score(distances, labels, metric="precomputed"))
