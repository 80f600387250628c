"""The score of a threshold of a hierarchical clustering (FedDAG). Shapes: N clients.

A. Pramanik, M. Kantarcioglu, V. Oria, S. Sharma: FedDAG. ICLR 2026, arXiv 2602.23504.

    L1  the sum over clusters of the mean distance within a cluster, each client's distance of 0 to
        itself included
    L2  the mean over clusters of exp(max(0, m - gamma s - n_k) / tau), with n_k clients in
        cluster k, and m and s the mean and standard deviation of these numbers

The threshold with the lowest L1 + lambda L2 is the best one. Clusters of one client each have
L1 = 0 and L2 = 1, so with the small lambda of the authors' code (0.01) no other clusters can have
a lower score, unless they are at most that far apart. In the authors' code the search is commented
out, and the threshold is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class ThresholdScore(NamedTuple):
    """The two parts of the score.

    Attributes:
        distances: L1, in the unit of the distances.
        sizes: L2, at least 1.
    """

    distances: float
    sizes: float

    def total(self, weight: float = 0.01) -> float:
        """L1 + lambda L2; ``weight`` is lambda."""
        return self.distances + weight * self.sizes


def threshold_score(
    distances: Float[np.ndarray, "N N"],
    labels: Int[np.ndarray, "N"],
    *,
    gamma: float = 1.0,
    tau: float = 1.0,
) -> ThresholdScore:
    """The score of the clusters that a threshold gives; lower is better.

    Args:
        distances: between clients, with 0 on the diagonal.
        labels: the cluster of each client.
        gamma: how many standard deviations below the mean a cluster's size costs nothing.
        tau: number of clients by which a cluster must be smaller than that to cost e times as much.
    """
    clusters = [labels == label for label in np.unique(labels)]
    sizes = np.array([members.sum() for members in clusters])
    within = sum(distances[np.ix_(members, members)].mean() for members in clusters)
    missing = np.maximum(0.0, sizes.mean() - gamma * sizes.std() - sizes)
    return ThresholdScore(float(within), float(np.exp(missing / tau).mean()))
