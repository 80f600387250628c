"""K-means++ with the settings that the clustered-FL literature relied on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from fedkin.errors import MethodError


def kmeans(
    points: Float[np.ndarray, "n d"], clusters: int, seed: int, restarts: int = 10, max_iter: int = 20
) -> Int[np.ndarray, "n"]:
    """Cluster labels by K-means with k-means++ starts (Arthur & Vassilvitskii 2007), best of ``restarts``.

    Ten restarts were scikit-learn's default when the papers were written; today's is one.

    Raises:
        MethodError: fewer distinct points than clusters.
    """
    distinct = len(np.unique(points, axis=0))
    if distinct < clusters:
        raise MethodError(f"{clusters} clusters need as many distinct points, got {distinct} among {len(points)}")
    fit = KMeans(clusters, n_init=restarts, max_iter=max_iter, random_state=seed)  # pyright: ignore[reportArgumentType]
    with threadpool_limits(1):  # sums over threads come out in no fixed order
        return np.asarray(fit.fit_predict(points), np.int64)
