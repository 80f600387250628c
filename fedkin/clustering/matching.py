"""Matching of cluster numbers, so that they stay stable from one clustering to the next.

Shapes: n clients of a clustering.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Num


def match_labels(
    labels: Int[np.ndarray, "n"],
    before: Int[np.ndarray, "n"],
    clusters: int,
    new: bool = False,
    weights: Num[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Renumber a partition so that as many clients as possible keep their cluster number.

    New clusters are assigned to former ones so that the total number of common clients is largest
    (linear assignment, Kuhn 1955).

    Args:
        labels: labels of the new partition, from 0.
        before: former cluster of each client, from 0; negative for a client without one.
        clusters: number of former clusters.
        new: whether a new cluster that is assigned to a former one without common clients gets a
            new number instead. If there are more new clusters than former ones, the new clusters
            that are left over always get new numbers. New numbers start at ``clusters``, in the
            order of the new labels.
        weights: by how much each client counts; default: equal.
    """
    from scipy.optimize import linear_sum_assignment

    count = int(labels.max(initial=-1)) + 1
    if weights is None:
        weights = np.ones(len(labels))
    common = np.zeros((count, clusters))
    had_cluster = before >= 0
    np.add.at(common, (labels[had_cluster], before[had_cluster]), weights[had_cluster])
    rows, columns = linear_sum_assignment(common, maximize=True)
    # Assigned clusters without a common client keep the number only if ``new`` is False.
    kept = (common[rows, columns] > 0) | (not new)
    number = np.full(count, -1)
    number[rows[kept]] = columns[kept]
    free = number < 0
    number[free] = clusters + np.arange(free.sum())
    return number[labels]
