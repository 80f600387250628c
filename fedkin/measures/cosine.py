"""Cosine similarity between updates. Letters: n and m rows, P parameters."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def cosine(a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """cos(a_i, b_j) = <a_i, b_j> / (|a_i| |b_j|); zero where either row is zero (FedGroup, eq. 5).

    A vector without direction is neither like nor unlike another, hence zero and never NaN.
    """
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)[None]
    inner = a @ b.T
    return np.clip(np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0), -1, 1)


def dissimilarity(a: Float[np.ndarray, "n P"], b: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """(1 - cos) / 2, in [0, 1]: 0 for the same direction, 1/2 for orthogonal, 1 for opposite (FedGroup, eq. 8)."""
    return (1 - cosine(a, b)) / 2
