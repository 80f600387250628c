"""K-means with k-means++ starts, with the settings that the clustered-FL papers used."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.clustering.lloyd import CloseDecision, lloyd_labels
from fedkin.core.errors import MethodError
from fedkin.core.one_thread import one_thread

# Largest number of distances of points and centres for which ``kmeans`` does without scikit-learn.
# For more of them scikit-learn is faster, even with the time of its import.
_FEW_DISTANCES = 10_000
_MAX_SMALL = 100  # largest number of points that ``kmeans_small`` clusters itself


def kmeans(
    points: Float[np.ndarray, "n d"],
    clusters: int,
    seed: int,
    restarts: int = 10,
    max_iter: int = 20,
    weights: Float[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Cluster labels by K-means with k-means++ starts (Arthur & Vassilvitskii 2007).

    Args:
        points: points, one per row.
        clusters: number of clusters.
        seed: seed of the starts.
        restarts: number of restarts; the best one is used. Ten was scikit-learn's default when the
            papers were written.
        max_iter: maximum number of steps of each restart.
        weights: weights of the points; default: equal.

    Raises:
        MethodError: there are fewer distinct points than clusters.
    """
    distinct = distinct_rows(points)
    if distinct < clusters:
        raise MethodError(
            f"{clusters} clusters need at least {clusters} distinct points, but only {distinct} of "
            f"the {len(points)} points are distinct; use fewer clusters"
        )
    if len(points) * clusters <= _FEW_DISTANCES:
        try:
            return lloyd_labels(
                points=points,
                clusters=clusters,
                seed=seed,
                restarts=restarts,
                max_iter=max_iter,
                weights=weights,
            )
        except CloseDecision:
            pass  # scikit-learn decides
    return _by_scikit_learn(
        points=points,
        clusters=clusters,
        seed=seed,
        restarts=restarts,
        max_iter=max_iter,
        weights=weights,
    )


def _by_scikit_learn(
    points: Float[np.ndarray, "n d"],
    clusters: int,
    seed: int,
    restarts: int,
    max_iter: int,
    weights: Float[np.ndarray, "n"] | None,
) -> Int[np.ndarray, "n"]:
    """The labels of scikit-learn's K-means. Its import takes a second. Arguments as for
    ``kmeans``."""
    from sklearn.cluster import KMeans

    fit = KMeans(
        clusters,
        n_init=restarts,  # pyright: ignore[reportArgumentType]
        max_iter=max_iter,
        random_state=seed,
    )
    # One thread is used, because sums over several threads have no fixed order.
    with one_thread("sklearn.cluster"):
        return np.asarray(fit.fit_predict(points, sample_weight=weights), np.int64)


def distinct_rows(points: Float[np.ndarray, "n d"]) -> int:
    """Number of different points. NumPy's ``unique`` takes seconds for rows of a model's size,
    because it makes a type with a field for each column."""
    # The sum turns -0.0 into 0.0, which have different bytes.
    return len({row.tobytes() for row in points + 0.0})


def kmeans_small(
    points: Float[np.ndarray, "n d"],
    clusters: int,
    rng: np.random.Generator,
    restarts: int = 20,
    max_iter: int = 300,
) -> Int[np.ndarray, "n"]:
    """Cluster labels by K-means for few points: all restarts at once, vectorised.

    scikit-learn runs restarts one after another, each in half a millisecond regardless of size. For
    twenty clients this was a fifth of a communication round. The result of twenty plain k-means++
    starts is on average within 1% of scikit-learn's ten starts, each of which tries several
    candidates for each centre. More than a hundred points are passed to ``kmeans``.

    Args:
        points: points, one per row.
        clusters: number of clusters.
        rng: random generator of the starts.
        restarts: number of restarts; the best one is used. It is ignored for more than a hundred
            points, for which ``kmeans`` makes ten restarts.
        max_iter: maximum number of steps.

    Raises:
        MethodError: there are fewer distinct points than clusters.
    """
    points = points.astype(np.float64)
    # For more points, the arrays below (restarts x points x clusters x dimensions) would be large.
    if len(points) > _MAX_SMALL:
        return kmeans(points, clusters, int(rng.integers(2**31)), max_iter=max_iter)
    distinct = len(np.unique(points, axis=0))
    if distinct < clusters:
        raise MethodError(
            f"{clusters} clusters need at least {clusters} distinct points, but only {distinct} of "
            f"the {len(points)} points are distinct; use fewer clusters"
        )
    squared_distances = ((points[:, None] - points) ** 2).sum(axis=2)
    starts = _starts(squared_distances, clusters, rng, restarts)
    centres = points[starts]  # [restarts, K, d]
    labels = np.full((restarts, len(points)), -1)
    for _ in range(max_iter):
        differences = points[None, :, None] - centres[:, None]
        distance = (differences**2).sum(axis=3)  # [restarts, n, K], squared
        nearest = distance.argmin(axis=2)
        if (nearest == labels).all():
            break
        labels = nearest
        member = labels[:, :, None] == np.arange(clusters)
        size = member.sum(axis=1)[:, :, None]
        means = member.transpose(0, 2, 1).astype(np.float64) @ points / np.maximum(size, 1)
        # A centre without points is not moved.
        centres = np.where(size > 0, means, centres)
    # The restart with the smallest sum of squared distances.
    best = distance.min(axis=2).sum(axis=1).argmin()
    return labels[best]


def _starts(
    squared_distances: Float[np.ndarray, "n n"],
    clusters: int,
    rng: np.random.Generator,
    restarts: int,
) -> Int[np.ndarray, "restarts K"]:
    """Starts of k-means++ for all restarts: each next centre is drawn with probability proportional
    to the squared distance from the nearest centre."""
    indices = [rng.integers(len(squared_distances), size=restarts)]
    nearest = squared_distances[indices[0]]  # [restarts, n]
    for _ in range(clusters - 1):
        # A uniform number between 0 and the sum of all squared distances hits point i with
        # probability proportional to its squared distance.
        cumulative = np.cumsum(nearest, axis=1)
        threshold = rng.random((restarts, 1)) * cumulative[:, -1:]
        indices.append((cumulative > threshold).argmax(axis=1))
        nearest = np.minimum(nearest, squared_distances[indices[-1]])
    return np.stack(indices, axis=1)
