"""When OCFL clusters: the temperature of a federation; and how well clusters separate clients.

M. Zuziak, R. Pellungrini, S. Rinzivillo: One-Shot Clustering for Federated Learning. IEEE BigData
2024, arXiv 2503.04231, as in the authors' code. Shapes: n clients, P parameters.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.measures.distances import pairwise


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
