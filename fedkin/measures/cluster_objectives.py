"""Objectives of a federation with one cluster and with several (FedSim, eqs. 5 to 12).

Shapes: n clients, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import MethodError


@dataclass(frozen=True)
class ClusterObjectives:
    """The two objectives of the same clients at the same model, and their difference."""

    clients: Float64[np.ndarray, "n"]  # F_k, mean loss of each client's samples (eq. 4)
    clusters: Float64[np.ndarray, "K"]  # F_c, mean of F_k over the clients of each cluster (eq. 6)

    @property
    def without_clusters(self) -> float:
        """F_O, the mean of F_k over all clients: FedAvg's objective (eq. 5)."""
        return float(self.clients.mean())

    @property
    def with_clusters(self) -> float:
        """F_G, the mean of F_c over the clusters: FedSim's objective (eq. 7)."""
        return float(self.clusters.mean())

    @property
    def regularisation(self) -> float:
        """lambda = F_O - F_G (eq. 12). The paper expects F_G <= F_O (eq. 11), so a lambda that is
        not negative."""
        return self.without_clusters - self.with_clusters


def objectives_of_losses(
    losses: Float[np.ndarray, "n"], labels: Int[np.ndarray, "n"]
) -> ClusterObjectives:
    """Objectives with and without clusters, from the loss of each client.

    All means are plain, as printed: clients are not weighted by their samples, clusters not by
    their clients. With one cluster, or with clusters of the same size, lambda is 0 whatever the
    losses are. Otherwise it is positive where small clusters have small losses. For clusters that
    are drawn at random its expectation is 0, so E(F_R) of eq. 10 equals F_O.

    Args:
        losses: mean loss of each client's samples.
        labels: cluster of each client. A cluster without clients does not count.

    Raises:
        MethodError: there are no clients.
    """
    if not len(losses):
        raise MethodError("the objectives need at least one client, got 0")
    _, cluster, size = np.unique(labels, return_inverse=True, return_counts=True)
    clients = losses.astype(np.float64)
    return ClusterObjectives(clients=clients, clusters=np.bincount(cluster, clients) / size)
