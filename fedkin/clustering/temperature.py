"""When and how OCFL clusters: the temperature of a federation, and clusters from cosine distances.

M. Zuziak, R. Pellungrini, S. Rinzivillo: One-Shot Clustering for Federated Learning. IEEE BigData
2024, arXiv 2503.04231, as in the authors' code. Shapes: n clients, P parameters.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.clustering.density import NOISE, by_first_appearance, nearest_label
from fedkin.clustering.kmeans import kmeans
from fedkin.measures.distances import pairwise

Clusterer = Literal["hdbscan", "mean_shift", "kmeans"]


def cosine_distances(updates: Float[np.ndarray, "n P"]) -> Float64[np.ndarray, "n n"]:
    """Gamma: 1 - cos of all pairs of updates, with zeros on the diagonal."""
    distances = pairwise(updates, "cosine")
    np.fill_diagonal(distances, 0.0)
    return distances


def temperature(distances: Float[np.ndarray, "n n"], order: float = 2.0) -> float:
    """T = |Gamma|_p / (n (n - 1) 2^p)^(1/p): 0 if all updates have one direction, 0.5 if all are
    orthogonal, 1 for two opposite ones.

    Args:
        distances: cosine distances, with zeros on the diagonal.
        order: p; 2 is the Frobenius norm.
    """
    n = len(distances)
    if n < 2:
        return 0.0
    total = float((np.abs(distances) ** order).sum())
    return (total / (n * (n - 1) * 2.0**order)) ** (1 / order)


def rises(now: float, before: float) -> bool:
    """Whether the clustering happens in this round: the temperature is strictly higher than in the
    round before. Before the first round it is infinite."""
    return now > before


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


def separation(distances: Float[np.ndarray, "n n"], labels: Int[np.ndarray, "n"]) -> float:
    """Mean distance of pairs in different clusters minus the mean distance of pairs in the same
    one; 0 if there are no pairs of one of the two kinds."""
    same = labels[:, None] == labels
    above = np.triu(np.ones_like(same), k=1)
    within = distances[same & above]
    between = distances[~same & above]
    if not len(within) or not len(between):
        return 0.0
    return float(between.mean() - within.mean())


def separation_p_value(
    distances: Float[np.ndarray, "n n"],
    labels: Int[np.ndarray, "n"],
    rng: np.random.Generator,
    draws: int = 999,
) -> float:
    """Share of random relabellings with the same sizes that separate the clients at least as well,
    the given labels included.

    The labels must come from other data than the distances. With few clients the p-value cannot be
    small: six clients in two clusters of three have 10 partitions.

    Args:
        distances: distances of all pairs.
        labels: cluster of each client.
        rng: draws the relabellings.
        draws: number of relabellings.
    """
    observed = separation(distances, labels)
    as_good = 1
    for _ in range(draws):
        drawn = separation(distances, rng.permutation(labels))
        as_good += drawn >= observed - 1e-12
    return as_good / (draws + 1)
