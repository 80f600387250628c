"""The rule of a buffer: when it is full, which replies it takes, and the step of its cluster's
model.

Shapes: B updates in a full buffer, P parameters, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import WeightedSum


@dataclass(frozen=True)
class BufferRule:
    """The numbers of a buffer, as in ``BufferedClusters``."""

    buffer: int
    exponent: float
    max_staleness: int
    lr: float

    def scale(self, staleness: Int[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        """s(tau): the factor of updates.

        Args:
            staleness: tau, how often the cluster's model has stepped since each update was sent.
        """
        return (1.0 + staleness) ** -self.exponent

    def step(
        self,
        update: Float[np.ndarray, "B P"],
        staleness: Int[np.ndarray, "B"],
        examples: Int[np.ndarray, "B"],
        cluster: Int[np.ndarray, "B"],
        clusters: int,
    ) -> tuple[Float[np.ndarray, "K P"], Float[np.ndarray, "K"]]:
        """The steps of all clusters' models, and the number of samples behind each step.

        Stale updates count with all their samples: s(tau) makes the step smaller, not the divisor.

        Args:
            update: the updates in a full buffer.
            staleness: tau of each update.
            examples: number of samples of each client, the weight of its update.
            cluster: cluster of each update.
            clusters: K, the number of clusters.
        """
        total = WeightedSum(clusters, update.shape[1])
        total.add(update * self.scale(staleness)[:, None], examples, cluster)
        mean, weight = total.mean(update.dtype.type)
        # A factor of 1 must not change the type or a bit.
        return (mean if self.lr == 1 else mean * update.dtype.type(self.lr)), weight
