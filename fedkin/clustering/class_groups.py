"""FedCCFA: groups of clients for each class, by the rows of their last layers, and the means of
these groups.

J. Chen, J. Xue, Y. Wang, Z. Liu, L. Huang: Classifier Clustering and Feature Alignment for
Federated Learning under Distributed Concept Drift. NeurIPS 2024, arXiv 2410.18478, as in the
authors' code. Shapes: n clients, C classes, q numbers of a class in the last layer (the d weights
of its row, and its bias).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Int, Num


def madd(rows: Float[np.ndarray, "n q"]) -> Float64[np.ndarray, "n n"]:
    """D_ij: the mean over all other clients z of |cos(v_i, v_z) - cos(v_j, v_z)|.

    Clients are near if they differ from others in the same way. Without a third client nothing can
    be compared, and the distance is infinite.

    Args:
        rows: v_i, the row of each client.
    """
    n = len(rows)
    if n < 3:
        return np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    directions = rows / np.where(lengths > 0, lengths, 1)
    similar = directions @ directions.T
    distance = np.zeros((n, n))
    for i in range(n):
        difference = np.abs(similar[i] - similar)
        # Neither i nor j is one of the others.
        own = difference[:, i] + difference.diagonal()
        distance[i] = (difference.sum(axis=1) - own) / (n - 2)
    np.fill_diagonal(distance, 0.0)
    return distance


def groups_by_class(heads: Float[np.ndarray, "n C q"], eps: float) -> Int[np.ndarray, "n C"]:
    """The group of each client for each class, numbered from 0 within a class.

    Clients at most ``eps`` apart are in one group, and so are all that are linked by such pairs
    (DBSCAN with ``min_samples = 1``).

    Args:
        heads: rows of all classes.
        eps: largest distance of a pair.
    """
    from scipy.sparse.csgraph import connected_components

    groups = np.zeros(heads.shape[:2], np.int64)
    for label in range(heads.shape[1]):
        near = madd(heads[:, label]) <= eps
        groups[:, label] = connected_components(near, directed=False)[1]
    return groups


def group_means(
    rows: Float[np.ndarray, "n C q"],
    groups: Int[np.ndarray, "n C"],
    counts: Num[np.ndarray, "n C"] | None = None,
) -> Float64[np.ndarray, "n C q"]:
    """Rows of all clients, in which each row is the mean of its group. A client alone in its group
    keeps its own row.

    Args:
        rows: rows of all classes.
        groups: the group of each client for each class.
        counts: samples of each class, as weights; None: all clients count the same. If no client of
            a group has samples of the class, all count the same.
    """
    means = rows.astype(np.float64)
    for label in range(rows.shape[1]):
        for group in np.unique(groups[:, label]):
            members = groups[:, label] == group
            weights = np.ones(members.sum())
            if counts is not None and counts[members, label].any():
                weights = counts[members, label]
            means[members, label] = np.average(rows[members, label], axis=0, weights=weights)
    return means


def entropy_weight(counts: Num[np.ndarray, "C"], gamma: float) -> float:
    """The entropy of a client's shares of classes, divided by gamma: the weight of the alignment of
    its features. A class without samples adds 0 (in the authors' code, NaN).

    Args:
        counts: samples of each class, at least one in all.
        gamma: scale of the weight, 20 in the authors' code.
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum() / gamma)
