"""Gram matrices of long vectors (updates), and their leading eigenvectors. Shapes: n updates, P
parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError

_NOISE = 1e-12  # directions below this share of the first squared singular value are rounding noise
_BLOCK = 2**21  # numbers that are converted to float64 at a time, to fit the processor's cache
_MIN_COLUMNS = 256  # with fewer columns, adding n x n partial sums costs more than computing them


def float64_blocks(updates: Float[np.ndarray, "n P"]) -> Iterator[Float64[np.ndarray, "n b"]]:
    """Yield column blocks of ``updates`` in float64, so that memory does not grow with P."""
    columns = max(_MIN_COLUMNS, _BLOCK // max(len(updates), 1))
    for start in range(0, updates.shape[1], columns):
        yield updates[:, start : start + columns].astype(np.float64, copy=False)


def gram(updates: Float[np.ndarray, "n P"]) -> Float64[np.ndarray, "n n"]:
    """Gram matrix G_ij = <x_i, x_j>: the inner products of all updates, in float64. The matrix
    resolves directions that are a thousand times weaker than the strongest one."""
    total = np.zeros((len(updates), len(updates)))
    for block in float64_blocks(updates):
        total += block @ block.T
    return total


def leading_eigenpairs(
    inner: Float64[np.ndarray, "n n"], directions: int
) -> tuple[Float64[np.ndarray, "m"], Float64[np.ndarray, "n m"]]:
    """The largest eigenvalues of a Gram matrix, largest first, and their eigenvectors as columns.

    The eigenvalues are the squared singular values of the matrix of updates. An eigenvector has a
    weight for each update: the sum of the updates with these weights is a principal direction.
    Beyond the rank of the updates, both would be rounding noise and are set to zero.

    Raises:
        MethodError: ``directions`` is below 1 or above the number of updates.
    """
    if not 1 <= directions <= len(inner):
        raise MethodError(
            f"the number of directions must be from 1 to the number of updates, {len(inner)}; got "
            f"{directions}"
        )
    values, vectors = np.linalg.eigh(inner)
    values = values[::-1][:directions]
    vectors = vectors[:, ::-1][:, :directions]
    is_direction = values > _NOISE * values[0]
    return np.where(is_direction, values, 0), np.where(is_direction, vectors, 0)
