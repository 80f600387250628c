"""FedGWC: rewards of clients by their losses, the matrix of rewards, and splits of a cluster.

A. Licciardi, D. Leo, E. Fanì, B. Caputo, M. Ciccone: Interaction-Aware Gaussian Weighting for
Clustered Federated Learning. ICML 2025, arXiv 2502.03340, as in the authors' code. Shapes: n
clients of a round, S observations of a client's loss, N clients of a cluster.
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64, Int, Num

from fedkin.clustering.density import by_first_appearance

_SMALLEST = 1e-16  # is added to variances
_MOST = 4  # largest number of parts of a split
_INDEX = 1.0  # a split must have a smaller Davies-Bouldin index


def rewards(
    losses: Float[np.ndarray, "n S"], samples: Num[np.ndarray, "n"]
) -> Float64[np.ndarray, "n"]:
    """r_i: the mean over observations of exp(-(l_is - mu_s)^2 / (2 var_s)), where mu_s and var_s
    are mean and variance over clients, weighted by samples. They sum to 1 over clients.

    Args:
        losses: losses of each client in the round.
        samples: number of samples of each client.
    """
    weights = samples / samples.sum()
    mean = weights @ losses
    deviation = (losses - mean) ** 2
    variance = weights @ deviation + _SMALLEST
    reward = np.exp(-deviation / (2 * variance)).mean(axis=1)
    return reward / reward.sum()


def update(
    matrix: Float64[np.ndarray, "N N"],
    cohort: Int[np.ndarray, "n"],
    reward: Float[np.ndarray, "n"],
    rate: float | Float[np.ndarray, "n n"],
) -> float:
    """Write the entries of a round into the matrix, W_ij := (1 - a) W_ij + a r_i for all i and j of
    the round. Returns the mean squared change of these entries.

    Args:
        matrix: W, which is changed in place.
        cohort: clients of the round.
        reward: normalised reward r_i of each of them.
        rate: a, or one for each entry.
    """
    touched = np.ix_(cohort, cohort)
    change = rate * (reward[:, None] - matrix[touched])
    matrix[touched] += change
    return float((change**2).mean())


def affinity(
    matrix: Float[np.ndarray, "N N"],
    gamma: float,
    vectors: Literal["columns", "rows"] = "columns",
) -> Float64[np.ndarray, "N N"]:
    """exp(-gamma |V_i - V_j|^2), without the entries i and j of both vectors; 0 on the diagonal.

    Args:
        matrix: W.
        gamma: the larger, the fewer clients are similar.
        vectors: what V_i is, after W was scaled to 0 .. 1: column i, as in the authors' code (what
            others earned in rounds with i), or row i (what i earned).
    """
    scaled = matrix.T if vectors == "columns" else matrix
    scaled = (scaled - scaled.min()) / max(np.ptp(scaled), _SMALLEST)
    squares = (scaled**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * scaled @ scaled.T
    # (V_ii - V_ji)^2 is entry i, and its transpose has entry j.
    at_first = (scaled.diagonal()[:, None] - scaled.T) ** 2
    similar = np.exp(-gamma * np.maximum(distance - at_first - at_first.T, 0))
    np.fill_diagonal(similar, 0)
    return similar


def davies_bouldin(
    similar: Float[np.ndarray, "N N"], parts: int
) -> tuple[float, Int[np.ndarray, "N"]]:
    """Labels of spectral clustering, and their Davies-Bouldin index on the spectral embedding with
    as many components as parts. The index is infinite if there are fewer parts."""
    from sklearn.cluster import SpectralClustering
    from sklearn.manifold import SpectralEmbedding
    from sklearn.metrics import davies_bouldin_score

    cluster = SpectralClustering(
        parts, affinity="precomputed", assign_labels="cluster_qr", random_state=0
    )
    embed = SpectralEmbedding(parts, affinity="precomputed", random_state=0)
    with warnings.catch_warnings():
        # A large gamma may make all similarities of two parts 0.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        labels = np.asarray(cluster.fit_predict(similar), np.int64)
        points = np.asarray(embed.fit_transform(similar))
    if len(np.unique(labels)) < parts:
        return np.inf, labels
    return float(davies_bouldin_score(points, labels)), labels


def split(similar: Float[np.ndarray, "N N"], most: int) -> Int[np.ndarray, "N"]:
    """Labels of the parts of a cluster, from 0: the split in 2 to 4 parts with the smallest
    Davies-Bouldin index, if that is below 1; otherwise all clients are one part.

    Args:
        similar: affinities of the clients.
        most: largest number of parts; N / n with n clients in a round.
    """
    most = min(most, _MOST, len(similar) - 2)
    tried = [davies_bouldin(similar, parts) for parts in range(2, most + 1)]
    index, labels = min(tried, key=lambda one: one[0], default=(np.inf, None))
    if labels is None or index >= _INDEX:
        return np.zeros(len(similar), np.int64)
    return by_first_appearance(labels)
