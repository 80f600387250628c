"""K-means++ with the settings that the clustered-FL literature relied on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import ThreadpoolController

from fedkin.core.errors import MethodError

_FEW = 100  # points


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    """The thread pools of scikit-learn's libraries; to look for them takes longer than a small fit."""
    return ThreadpoolController()


def kmeans(
    points: Float[np.ndarray, "n d"], clusters: int, seed: int, restarts: int = 10, max_iter: int = 20
) -> Int[np.ndarray, "n"]:
    """Cluster labels by K-means with k-means++ starts (Arthur & Vassilvitskii 2007), best of ``restarts``.

    Ten restarts were scikit-learn's default when the papers were written; today's is one.

    Raises:
        MethodError: fewer distinct points than clusters.
    """
    from sklearn.cluster import KMeans

    distinct = len(np.unique(points, axis=0))
    if distinct < clusters:
        raise MethodError(f"{clusters} clusters need as many distinct points, got {distinct} among {len(points)}")
    fit = KMeans(clusters, n_init=restarts, max_iter=max_iter, random_state=seed)  # pyright: ignore[reportArgumentType]
    with _threads().limit(limits=1):  # sums over threads come out in no fixed order
        return np.asarray(fit.fit_predict(points), np.int64)


def kmeans_small(
    points: Float[np.ndarray, "n d"],
    clusters: int,
    rng: np.random.Generator,
    restarts: int = 20,
    max_iter: int = 300,
) -> Int[np.ndarray, "n"]:
    """The same where there are few points, in every round: all restarts at once, one array operation a step.

    scikit-learn takes its restarts one after another, half a millisecond each whatever the size; for twenty clients
    that was a fifth of a communication round. Twenty plain k-means++ starts come within a per cent, on average, of its
    ten, each of which tries several candidates for a centre. Beyond a hundred points they are scikit-learn's to do.

    Raises:
        MethodError: fewer distinct points than clusters.
    """
    points = points.astype(np.float64)
    if len(points) > _FEW:  # the arrays below would take restarts x points x clusters x dimensions numbers
        return kmeans(points, clusters, int(rng.integers(2**31)), max_iter=max_iter)
    between = ((points[:, None] - points) ** 2).sum(axis=2)
    if (distinct := len(np.unique(points, axis=0))) < clusters:
        raise MethodError(f"{clusters} clusters need as many distinct points, got {distinct} among {len(points)}")
    centres = points[_starts(between, clusters, rng, restarts)]  # [restarts, K, d]
    labels = np.full((restarts, len(points)), -1)
    for _ in range(max_iter):
        far = ((points[None, :, None] - centres[:, None]) ** 2).sum(axis=3)  # [restarts, n, K]
        before, labels = labels, far.argmin(axis=2)
        if (labels == before).all():
            break
        member = labels[:, :, None] == np.arange(clusters)
        size = member.sum(axis=1)[:, :, None]
        means = member.transpose(0, 2, 1).astype(np.float64) @ points / np.maximum(size, 1)
        centres = np.where(size > 0, means, centres)  # one that lost all its points stays where it is
    return labels[far.min(axis=2).sum(axis=1).argmin()]


def _starts(
    between: Float[np.ndarray, "n n"], clusters: int, rng: np.random.Generator, restarts: int
) -> Int[np.ndarray, "restarts K"]:
    """k-means++: each next centre is a point drawn in proportion to its squared distance from the nearest so far."""
    chosen = [rng.integers(len(between), size=restarts)]
    nearest = between[chosen[0]]  # [restarts, n]
    for _ in range(clusters - 1):
        reach = np.cumsum(nearest, axis=1)
        drawn = rng.random((restarts, 1)) * reach[:, -1:]
        chosen.append((reach > drawn).argmax(axis=1))
        nearest = np.minimum(nearest, between[chosen[-1]])
    return np.stack(chosen, axis=1)
