"""Pre-aggregation steps on n vectors before a robust rule: mixing, bucketing, clipping, and removal
of minorities.

Sources: nearest-neighbour mixing NNM (Allouah et al., AISTATS 2023), bucketing (Karimireddy et al.,
ICLR 2022), adaptive clipping ARC (Allouah et al., 2024). The rows x_i [n P] are updates, one per
client, in the order of client numbers. f is the assumed number of Byzantine rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, Int

from fedkin.clustering.agglomerative import best_silhouette
from fedkin.measures.cosine import cosine

Rows = Float64[np.ndarray, "n P"]
BUCKET = 2  # number of rows per bucket


def nearest_neighbour_mixing(rows: Rows, f: int) -> Rows:
    """Nearest-neighbour mixing (NNM): replace every row (a client's update) by the mean of the n -
    f rows nearest to it, including itself."""
    # Row i of the matrix holds the weights with which the rows are averaged into the new row i.
    chosen = np.zeros((len(rows), len(rows)))
    np.put_along_axis(chosen, nearest_rows(rows, f), 1 / (len(rows) - f), axis=1)
    return chosen @ rows


def nearest_rows(rows: Rows, f: int) -> Int[np.ndarray, "n m"]:
    """The indices of the m = n - f rows (clients' updates) nearest to each row, including
    itself."""
    return np.argsort(squared_distances(rows), axis=1, kind="stable")[:, : len(rows) - f]


def adaptive_clipping(rows: Rows, f: int) -> Rows:
    """Adaptive clipping (ARC): clip the k = floor(2 f / n (n - f)) longest rows (clients' updates)
    to the length of the next longest row."""
    n = len(rows)
    k = math.floor(2 * (f / n) * (n - f)) if n else 0
    lengths = np.linalg.norm(rows, axis=1)
    if not k:
        return rows
    limit = np.sort(lengths)[n - k - 1]
    factors = np.minimum(1, np.divide(limit, lengths, out=np.ones(n), where=lengths > 0))
    return rows * factors[:, None]


def clip_to_median(rows: Rows, f: int) -> Rows:
    """Clip every row (a client's update) to the rows' median length."""
    return clipped(rows)


def clipped(rows: Rows, radius: float | None = None) -> Rows:
    """Rows (clients' updates) clipped to a length; by default to their median length."""
    return rows * clip_factors(rows, radius)[:, None]


def clip_factors(rows: Rows, radius: float | None = None) -> Float64[np.ndarray, "n"]:
    """The factor of at most 1 by which ``clipped`` scales each row (a client's update)."""
    lengths = np.linalg.norm(rows, axis=1)
    limit = float(np.median(lengths)) if radius is None else radius
    return np.minimum(1, np.divide(limit, lengths, out=np.ones(len(rows)), where=lengths > 0))


def bucketing(rows: Rows, f: int) -> Float64[np.ndarray, "b P"]:
    """Means of random pairs of rows (clients' updates); with an odd number the last row stays
    alone."""
    return bucket_means(rows, bucket_order(rows), BUCKET)


def bucket_means(rows: Rows, order: Int[np.ndarray, "n"], size: int) -> Float64[np.ndarray, "b P"]:
    """Means of the rows (clients' updates) of each bucket; the last bucket may have fewer rows.

    Args:
        rows: updates of all clients, one row each.
        order: order in which the rows are put into buckets.
        size: number of rows per bucket.
    """
    starts = np.arange(0, len(rows), size)
    sizes = np.diff(np.append(starts, len(rows)))
    return np.add.reduceat(rows[order], starts, axis=0) / sizes[:, None]


def bucket_order(rows: Rows) -> Int[np.ndarray, "n"]:
    """A random order of rows (clients' updates), whose seed comes from the rows themselves.

    So a resumed run gets the same order, and no client knows the order before it has sent its row.
    """
    seed = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(seed[:16], "little")).permutation(len(rows))


def squared_distances(rows: Rows) -> Float64[np.ndarray, "n n"]:
    """Squared Euclidean distances between all pairs of rows, from the Gram matrix."""
    inner = rows @ rows.T
    lengths = inner.diagonal()
    return np.maximum(lengths[:, None] + lengths - 2 * inner, 0)


def without_minorities(rows: Rows, f: int) -> Float64[np.ndarray, "m P"]:
    """The rows (clients' updates) that remain after minorities with opposing directions have been
    removed (``majority``)."""
    return rows[majority(rows, f)]


def majority(rows: Rows, f: int) -> Int[np.ndarray, "m"]:
    """The indices of the rows (clients' updates) that remain after removing minorities with
    opposing directions.

    The rows are split in two groups by cosine similarity (``best_silhouette``). If the means of the
    groups have a cosine of 0 or less, the smaller group is dropped, and the rest is split again. At
    most f rows are dropped in total.

    This step is our own. Attackers that agree with each other shift a median, even if they are far
    fewer than half. As a separate group they are found and removed. A minority whose direction does
    not oppose the larger group stays.
    """
    kept = np.arange(len(rows))
    while True:
        groups = best_silhouette(1 - cosine(rows[kept], rows[kept]), most=2)
        sizes = np.bincount(groups, minlength=2)
        may_still_leave_out = f - (len(rows) - len(kept))
        if not 0 < sizes.min() <= may_still_leave_out or sizes[0] == sizes[1]:
            return kept
        means = [rows[kept[groups == group]].mean(axis=0) for group in (0, 1)]
        if means[0] @ means[1] > 0:
            return kept
        kept = kept[groups == np.argmax(sizes)]


BEFORE: dict[str, Callable[[Rows, int], Rows]] = {
    "nnm": nearest_neighbour_mixing,
    "arc": adaptive_clipping,
    "clip": clip_to_median,
    "bucketing": bucketing,
    "majority": without_minorities,
}
