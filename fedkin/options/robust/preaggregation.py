"""What is done to n vectors before a rule aggregates them: mixing, averages of small groups,
clipping, leaving minorities out.

Sources: nearest-neighbour mixing NNM (Allouah et al., AISTATS 2023), bucketing (Karimireddy et al.,
ICLR 2022), adaptive clipping ARC (Allouah et al., 2024). Rows x_i [n P] are one client's each, in
the order of their numbers.
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
BUCKET = 2  # rows of a bucket


def nearest_neighbour_mixing(rows: Rows, f: int) -> Rows:
    """Every row becomes the mean of the n - f rows nearest to it, itself included (NNM)."""
    chosen = np.zeros((len(rows), len(rows)))
    np.put_along_axis(chosen, nearest_rows(rows, f), 1 / (len(rows) - f), axis=1)
    return chosen @ rows


def nearest_rows(rows: Rows, f: int) -> Int[np.ndarray, "n m"]:
    """The numbers of the m = n - f rows nearest to each row, itself included."""
    return np.argsort(squared_distances(rows), axis=1, kind="stable")[:, : len(rows) - f]


def adaptive_clipping(rows: Rows, f: int) -> Rows:
    """The k = floor(2 f / n (n - f)) longest rows are cut to the length of the next one (ARC)."""
    n = len(rows)
    k = math.floor(2 * (f / n) * (n - f)) if n else 0
    lengths = np.linalg.norm(rows, axis=1)
    if not k:
        return rows
    limit = np.sort(lengths)[n - k - 1]
    return (
        rows * np.minimum(1, np.divide(limit, lengths, out=np.ones(n), where=lengths > 0))[:, None]
    )


def clip_to_median(rows: Rows, f: int) -> Rows:
    """Every row is cut to the median length."""
    return clipped(rows)


def clipped(rows: Rows, radius: float | None = None) -> Rows:
    """Rows cut to a length where they are longer; by default the median length."""
    return rows * clip_factors(rows, radius)[:, None]


def clip_factors(rows: Rows, radius: float | None = None) -> Float64[np.ndarray, "n"]:
    """What ``clipped`` multiplies each row with."""
    lengths = np.linalg.norm(rows, axis=1)
    limit = float(np.median(lengths)) if radius is None else radius
    return np.minimum(1, np.divide(limit, lengths, out=np.ones(len(rows)), where=lengths > 0))


def bucketing(rows: Rows, f: int) -> Float64[np.ndarray, "b P"]:
    """Means of random pairs of rows; of an odd number the last row stays alone."""
    return bucket_means(rows, bucket_order(rows), BUCKET)


def bucket_means(rows: Rows, order: Int[np.ndarray, "n"], size: int) -> Float64[np.ndarray, "b P"]:
    """Means of the rows of each bucket; the last may have fewer.

    Args:
        rows: of all clients.
        order: in which they are put into buckets.
        size: of a bucket.
    """
    starts = np.arange(0, len(rows), size)
    sizes = np.diff(np.append(starts, len(rows)))
    return np.add.reduceat(rows[order], starts, axis=0) / sizes[:, None]


def bucket_order(rows: Rows) -> Int[np.ndarray, "n"]:
    """A random order that is drawn from the rows themselves: the same in a run that goes on, and no
    client knows it before it has sent its own."""
    seed = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(seed[:16], "little")).permutation(len(rows))


def squared_distances(rows: Rows) -> Float64[np.ndarray, "n n"]:
    """Squared Euclidean distances of all pairs, from the Gram matrix; equal rows are at 0."""
    inner = rows @ rows.T
    lengths = inner.diagonal()
    return np.maximum(lengths[:, None] + lengths - 2 * inner, 0)


def without_minorities(rows: Rows, f: int) -> Float64[np.ndarray, "m P"]:
    """The rows without those that ``majority`` leaves out."""
    return rows[majority(rows, f)]


def majority(rows: Rows, f: int) -> Int[np.ndarray, "m"]:
    """The numbers of the rows that are left when minorities of together at most f rows that point
    away are left out: again and again the rows are cut in two by their cosines, as long as the two
    differ (``best_silhouette``) and the mean of the smaller has a cosine of 0 or less with that of
    the larger.

    Ours. Attackers that agree with each other pull a median, however many up to half they are; as a
    group of their own they are found, and count nothing. A minority that does no harm to the
    direction of the others stays.
    """
    kept = np.arange(len(rows))
    while True:
        groups = best_silhouette(1 - cosine(rows[kept], rows[kept]), most=2)
        sizes = np.bincount(groups, minlength=2)
        if not 0 < sizes.min() <= f - (len(rows) - len(kept)) or sizes[0] == sizes[1]:
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
