"""How tight clusters are: the within-cluster sum of squares, by which FedGroup (section III-D) and
FlexCFL (section 3.3) judge the clusters of a cold start."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError


def within_cluster_squares(points: Float[np.ndarray, "n d"], labels: Int[np.ndarray, "_"]) -> float:
    """Within-cluster sum of squares: sum_k sum_{i in k} |x_i - m_k|^2, m_k the mean of cluster k.

    It is what K-means minimises. It falls as clusters are added, and is 0 if each point is a
    cluster. Compare values only for the same embedding.

    Args:
        points: the embedding, such as the ternary similarity matrix, one row for each client.
        labels: cluster of each client; only who is together counts.

    Raises:
        MethodError: there are no points, a point is not finite, or the numbers of points and labels
            differ.
    """
    if not len(points) or len(points) != len(labels) or not np.isfinite(points).all():
        raise MethodError(
            f"expected finite points and a label for each, got {len(points)} points and "
            f"{len(labels)} labels"
        )
    _, cluster = np.unique(labels, return_inverse=True)
    means = np.stack(
        [points[cluster == k].mean(axis=0, dtype=np.float64) for k in range(cluster.max() + 1)]
    )
    return float(((points - means[cluster]) ** 2).sum())
