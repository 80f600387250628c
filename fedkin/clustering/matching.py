"""Numbers of clusters that stay from one clustering to the next.

Shapes: n clients of a clustering.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def match_labels(
    labels: Int[np.ndarray, "n"], before: Int[np.ndarray, "n"], clusters: int, new: bool = False
) -> Int[np.ndarray, "n"]:
    """The same partition, numbered so that as many clients as possible keep the number of their
    former cluster.

    It is the linear assignment of new to former clusters by clients in common.

    Args:
        labels: of the new partition, from 0.
        before: the former cluster of each client, from 0; negative: it had none.
        clusters: how many former numbers there are, from 0.
        new: whether a cluster gets a new number if it has no client in common with the former
            cluster of that number. New numbers begin at ``clusters``, in order of the new labels. A
            cluster for which no former number is left gets a new one in any case.
    """
    from scipy.optimize import linear_sum_assignment

    count = int(labels.max(initial=-1)) + 1
    common = np.zeros((count, clusters), np.int64)
    had_cluster = before >= 0
    np.add.at(common, (labels[had_cluster], before[had_cluster]), 1)
    rows, columns = linear_sum_assignment(common, maximize=True)
    kept = (common[rows, columns] > 0) | (not new)
    number = np.full(count, -1)
    number[rows[kept]] = columns[kept]
    free = number < 0
    number[free] = clusters + np.arange(free.sum())
    return number[labels]
