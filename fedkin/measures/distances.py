"""Distances between all pairs of long vectors (rows), such as updates, in bounded memory, and the
nearest of a few centres. Shapes: n rows, P parameters, t points, m centres, e numbers of each."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from fedkin.core.errors import MethodError, unknown
from fedkin.measures.gram import float64_blocks, gram

METRICS = ("l1", "l2", "cosine")

# Squared distances below this share of the squared lengths are computed again from differences:
# subtracting nearly equal products has cost them more than 6 of 16 digits.
_CLOSE = 1e-6


def pairwise(rows: Float[np.ndarray, "n P"], metric: str) -> Float64[np.ndarray, "n n"]:
    """Distances d(x_i, x_j) of all pairs of rows (vectors), symmetric with a zero diagonal.

    ``l1`` is the sum of absolute differences, ``l2`` the Euclidean distance, and ``cosine`` is 1 -
    cos in [0, 2]. A zero row has no direction, so its cosine distance to all other rows is 1. l2
    and cosine use one matrix product. Rows that are close to each other are compared element by
    element, because the product loses precision for them.

    Raises:
        MethodError: the metric is unknown.
    """
    if metric not in METRICS:
        raise MethodError(unknown("metric", metric, METRICS))
    all_rows = np.arange(len(rows))
    if metric == "l1":
        return _from_differences(rows, all_rows, np.ones(len(rows)), "cityblock")
    inner = gram(rows)
    if metric == "l2":
        return np.sqrt(_squared(rows, inner, np.ones(len(rows))))
    norms = np.sqrt(inner.diagonal())
    # Half of the squared distance of unit vectors is 1 - cos.
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    distances = _squared(rows, inner, inverse) / 2
    distances[(norms[:, None] == 0) | (norms == 0)] = 1
    np.fill_diagonal(distances, 0)
    return distances


def nearest_centre(
    points: Float[np.ndarray, "t e"],
    centres: Float[np.ndarray, "m e"],
    usable: Bool[np.ndarray, "#t m"] | None = None,
) -> Int[np.ndarray, "t"]:
    """The nearest centre of each point (the first of ties), by Euclid's distance in float64.

    Args:
        points: points, one per row.
        centres: centres, one per row.
        usable: which centres each point, or all points, may use; None: all.
    """
    exact = points.astype(np.float64)
    distances = np.stack([((exact - centre) ** 2).sum(axis=1) for centre in centres], axis=1)
    if usable is not None:
        distances = np.where(usable, distances, np.inf)
    return distances.argmin(axis=1)


def _squared(
    rows: Float[np.ndarray, "n P"],
    inner: Float64[np.ndarray, "n n"],
    scale: Float64[np.ndarray, "n"],
) -> Float64[np.ndarray, "n n"]:
    """Squared distances |s_i x_i - s_j x_j|^2 of rows x_i, each scaled by its number s_i, from the
    matrix ``inner`` of the inner products <x_i, x_j>. Rows scaled to length 1 have the squared
    distances 2 (1 - cos)."""
    inner = inner * np.outer(scale, scale)
    lengths = inner.diagonal()[:, None] + inner.diagonal()
    squared = np.clip(lengths - 2 * inner, 0, None)
    # Where the difference is small, rounding dominates it: compare these rows element by element.
    close = squared < _CLOSE * lengths
    np.fill_diagonal(close, False)
    close_rows = np.flatnonzero(close.any(axis=1))
    exact = _from_differences(rows, close_rows, scale, "sqeuclidean")
    squared[np.ix_(close_rows, close_rows)] = exact
    return squared


def _from_differences(
    rows: Float[np.ndarray, "n P"],
    chosen: Int[np.ndarray, "k"],
    scale: Float64[np.ndarray, "n"],
    metric: Literal["cityblock", "sqeuclidean"],
) -> Float64[np.ndarray, "k k"]:
    """Distances of all pairs of the rows (vectors) ``chosen``, computed from the differences of
    their entries, which is exact but slow."""
    from scipy.spatial.distance import pdist, squareform

    count = len(chosen)
    if count < 2:
        return np.zeros((count, count))
    total = np.zeros(count * (count - 1) // 2)
    for block in float64_blocks(rows):
        total += pdist(block[chosen] * scale[chosen, None], metric)
    return squareform(total)
