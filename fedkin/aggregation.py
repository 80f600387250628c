"""Weighted means of models and updates in each cluster. Shapes: n updates, K clusters, P
parameters."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Num


class WeightedSum:
    """For each model, the weighted sum of its updates. Updates can be added in portions.

    The updates (rows) are added one after another in float64. The sum therefore depends on their
    order but not on the division into portions, and a server that receives updates one by one gets
    the same bits as one that holds all.

    Args:
        clusters: K, the number of models.
        parameters: P, the length of an update.
    """

    def __init__(self, clusters: int, parameters: int) -> None:
        self._sum = np.zeros((clusters, parameters))
        self._weight = np.zeros(clusters)

    def add(
        self,
        update: Float[np.ndarray, "n P"],
        weight: Num[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
    ) -> None:
        """Add updates to the sums of their models. An update of weight zero is skipped.

        Args:
            update: the updates, one row per client.
            weight: the weight of each update.
            model_index: the model to whose sum each update is added.
        """
        # One array for the products of all rows: a new one for each row takes more time.
        weighted = np.empty(update.shape[1], np.float64)
        for row in np.flatnonzero(weight):
            np.multiply(update[row], weight[row], out=weighted, dtype=np.float64)
            self._sum[model_index[row]] += weighted
            self._weight[model_index[row]] += weight[row]

    def merge(self, other: WeightedSum) -> None:
        """Add the sums of another ``WeightedSum``, to which other updates were added.

        The result may differ in its last bits from the sum of all updates in one object.
        """
        self._sum += other._sum
        self._weight += other._weight

    def mean(
        self, dtype: type = np.float32
    ) -> tuple[Float[np.ndarray, "K P"], Float[np.ndarray, "K"]]:
        """The weighted mean of each model's updates.

        Args:
            dtype: NumPy type of the means.

        Returns:
            The mean of each model (zero if no update was added), and the sum of weights of each
            model.
        """
        means = np.zeros(self._sum.shape, dtype)
        used = np.flatnonzero(self._weight > 0)
        means[used] = self._sum[used] / self._weight[used, None]
        return means, self._weight


def mean_by_model(
    update: Float[np.ndarray, "n P"],
    weight: Num[np.ndarray, "n"],
    model_index: Int[np.ndarray, "n"],
    clusters: int,
) -> tuple[Float[np.ndarray, "K P"], Float[np.ndarray, "K"]]:
    """Weighted mean update of each model (McMahan et al. 2017, Algorithm 1).

    Args:
        update: the updates, one row per client.
        weight: weight of each update, such as the client's number of training examples.
        model_index: the model that each update changes.
        clusters: K, the number of models.

    Returns:
        The mean update and the sum of weights of each model. Both are zero for a model without
        updates.
    """
    total = WeightedSum(clusters, update.shape[1])
    total.add(update, weight, model_index)
    return total.mean()


def simple_mean_by_cluster(
    rows: Float[np.ndarray, "n P"], labels: Int[np.ndarray, "n"], clusters: int
) -> Float[np.ndarray, "K P"]:
    """Unweighted mean of the vectors of each cluster; zero for a cluster without vectors.

    Args:
        rows: the vectors to average, one per row.
        labels: the cluster of each vector.
        clusters: K, the number of clusters.
    """
    return mean_by_model(rows, np.ones(len(rows)), labels, clusters)[0]


def inter_cluster_aggregation(
    models: Float[np.ndarray, "K P"], eta: float, normalize: bool = True
) -> Float[np.ndarray, "K P"]:
    """Inter-group aggregation (FedGroup, Algorithm 2, l. 20-25), all clusters at once:

        w_j <- (w_j + eta sum_{l != j} w_l / |w_l|) / (1 + eta sum_{l != j} 1 / |w_l|)

    A model w_l of norm zero has no direction, so its terms are left out.

    Args:
        models: one per cluster.
        eta: weight of the other clusters' models.
        normalize: whether to divide by the denominator. The authors' code divides; the paper does
            not. Without the division, every |w_j| grows by up to eta (K - 1) per round.
    """
    wide = models.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    directions = wide * inverse[:, None]
    other_directions = directions.sum(axis=0) - directions
    mixed = wide + eta * other_directions
    if normalize:
        mixed /= (1 + eta * (inverse.sum() - inverse))[:, None]
    return mixed.astype(models.dtype)
