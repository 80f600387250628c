"""Cosine similarity between updates. Shapes: n and m updates, P parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

_COLUMNS = 2048  # number of columns in a block


def cosine(a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """Cosine similarities cos(a_i, b_j) = <a_i, b_j> / (|a_i| |b_j|) of all pairs (FedGroup, eq.
    5).

    An update of zeros has no direction. Its similarities are zero, never NaN.
    """
    return np.clip(unit_rows(a) @ unit_rows(b).T, -1, 1)


def unit_rows(rows: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n P"]:
    """Each row (a vector, such as an update) scaled to length 1; rows of zeros are unchanged.

    Lengths are computed in float64, because they may overflow or underflow float32.
    """
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


def cosine_from(
    a: Float[np.ndarray, "n P"],
    b: Float[np.ndarray, "m P"],
    origin: Float[np.ndarray, "P"] | None = None,
) -> Float[np.ndarray, "n m"]:
    """Cosine similarities of a and b relative to an origin, computed in column blocks to avoid
    large copies.

    The similarity of two vectors is zero if one of them equals the origin, or if float32 cannot
    represent its squared distance from the origin.

    Args:
        a: vectors, one for each row of the result.
        b: vectors, one for each column of the result. Passing ``a`` itself takes half the time.
        origin: vector that is subtracted from both; default: zero.
    """
    product = np.zeros((len(a), len(b)))
    squares_a = np.zeros(len(a))
    squares_b = np.zeros(len(b))
    with np.errstate(over="ignore", invalid="ignore"):
        for columns in column_blocks(a.shape[1]):
            left = _relative(a, columns, origin)
            right = left if a is b else _relative(b, columns, origin)
            product += left @ right.T
            if a is not b:
                squares_a += np.einsum("ij,ij->i", left, left)
                squares_b += np.einsum("ij,ij->i", right, right)
        # The product of a with itself has the squared lengths on its diagonal.
        if a is b:
            squares_a = squares_b = product.diagonal()
        # A row of zeros has length 0 and keeps the similarity 0; overflow gives NaN, which becomes
        # 0.
        lengths = np.outer(np.sqrt(squares_a), np.sqrt(squares_b))
        cosines = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    return np.clip(np.nan_to_num(cosines, nan=0.0), -1, 1)


def _relative(
    rows: Float[np.ndarray, "n P"], columns: slice, origin: Float[np.ndarray, "P"] | None
) -> np.ndarray:
    """The selected columns of vectors (one per row), minus the same entries of the origin."""
    return rows[:, columns] if origin is None else rows[:, columns] - origin[columns]


def column_blocks(columns: int) -> Iterator[slice]:
    """Yield slices of the columns of a matrix, so narrow that each block of a few hundred rows fits
    into the cache of a core."""
    for first in range(0, columns, _COLUMNS):
        yield slice(first, first + _COLUMNS)


def dissimilarity(
    a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]
) -> Float[np.ndarray, "n m"]:
    """Dissimilarities (1 - cos) / 2 in [0, 1]: 0 for the same direction, 1/2 for orthogonal and 1
    for opposite directions (FedGroup, eq. 8)."""
    return (1 - cosine(a, b)) / 2
