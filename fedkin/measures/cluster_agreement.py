"""Agreement of two clusterings of the same clients. Shapes: n clients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def adjusted_rand_index(first: Int[np.ndarray, "n"], second: Int[np.ndarray, "n"]) -> float:
    """Adjusted Rand index (Hubert & Arabie 1985): 1 for equal partitions, about 0 for independent
    ones.

    Let a be the number of ordered pairs of clients that share a cluster in both partitions, b only
    in the first, c only in the second, and d in neither, of n(n - 1) pairs in total. Then ARI = 2
    (a d - b c) / ((a + b) (b + d) + (a + c) (c + d)), computed with exact integers. Cluster numbers
    do not matter, only who is together.
    """
    _, row = np.unique(first, return_inverse=True)
    _, column = np.unique(second, return_inverse=True)
    width = int(column.max(initial=0)) + 1
    # Number of clients in each pair of clusters, one from each partition.
    cells = np.bincount(row * width + column)
    a = _pairs_together(cells)
    b = _pairs_together(np.bincount(row)) - a
    c = _pairs_together(np.bincount(column)) - a
    d = len(first) * (len(first) - 1) - a - b - c
    if b == 0 and c == 0:
        return 1.0
    return 2.0 * (a * d - b * c) / ((a + b) * (b + d) + (a + c) * (c + d))


def _pairs_together(sizes: Int[np.ndarray, "k"]) -> int:
    """Number of ordered pairs of different clients that share a cluster, from the cluster sizes."""
    return int((sizes.astype(np.int64) ** 2).sum()) - int(sizes.sum())
