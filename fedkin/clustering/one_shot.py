"""Clusters from cosine distances, as OCFL's scripts find them.

M. Zuziak, R. Pellungrini, S. Rinzivillo: One-Shot Clustering for Federated Learning. IEEE BigData
2024, arXiv 2503.04231. n: number of clients.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float, Int

from fedkin.clustering.density import NOISE, by_first_appearance, nearest_label
from fedkin.clustering.kmeans import kmeans

Clusterer = Literal["hdbscan", "mean_shift", "kmeans"]


def clusters_of(
    distances: Float[np.ndarray, "n n"],
    clusterer: Clusterer,
    *,
    clusters: int = 3,
    min_size: int = 3,
    noise: Literal["nearest", "own"] = "nearest",
    seed: int = 0,
) -> Int[np.ndarray, "n"]:
    """Labels from 0, numbered by first appearance.

    Args:
        distances: cosine distances.
        clusterer: ``hdbscan`` on the distances; ``mean_shift`` or ``kmeans`` on their rows as
            points, as the authors' scripts call them.
        clusters: K, for ``kmeans`` only.
        min_size: smallest cluster of HDBSCAN.
        noise: what becomes of the clients that HDBSCAN leaves out: they join the ``nearest``
            cluster, or form one more cluster, as in the authors' code.
        seed: seed of K-means.
    """
    if clusterer == "kmeans":
        return by_first_appearance(kmeans(distances, clusters, seed))
    if clusterer == "mean_shift":
        from sklearn.cluster import MeanShift

        return by_first_appearance(np.asarray(MeanShift().fit_predict(distances), np.int64))
    labels = _hdbscan(distances, min_size)
    if (labels == NOISE).all():
        return np.zeros(len(labels), np.int64)
    if noise == "own":
        labels = np.where(labels == NOISE, labels.max() + 1, labels)
    elif (labels == NOISE).any():
        outside = labels == NOISE
        # The rows of distances are the points: clients that are far from the same others.
        nearest, _ = nearest_label(distances[outside], distances[~outside], labels[~outside])
        labels[outside] = nearest
    return by_first_appearance(labels)


def _hdbscan(distances: Float[np.ndarray, "n n"], min_size: int) -> Int[np.ndarray, "n"]:
    """Labels of HDBSCAN on distances; -1 is noise."""
    from sklearn.cluster import HDBSCAN

    # The stubs of ``copy`` name the type of its old default only.
    copy = cast(Any, True)
    model = HDBSCAN(min(min_size, len(distances)), metric="precomputed", copy=copy)
    return np.asarray(model.fit_predict(distances), np.int64)
