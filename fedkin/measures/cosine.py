"""Cosine similarity between updates. Letters: n and m rows, P parameters."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def cosine(a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """cos(a_i, b_j) = <a_i, b_j> / (|a_i| |b_j|); zero where either row is zero (FedGroup, eq. 5).

    A vector without direction is neither like nor unlike another, hence zero and never NaN.
    """
    return np.clip(_unit(a) @ _unit(b).T, -1, 1)


def _unit(rows: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n P"]:
    """Each row at length 1, a zero row as it is. Lengths are float64: those of float32 rows may be larger, or smaller,
    than float32 can say."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


def dissimilarity(a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """(1 - cos) / 2, in [0, 1]: 0 for the same direction, 1/2 for orthogonal, 1 for opposite (FedGroup, eq. 8)."""
    return (1 - cosine(a, b)) / 2
