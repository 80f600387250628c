"""Dissimilarity of the clients' gradients. Shapes: n clients, P parameters."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Real

from fedkin.core.errors import MethodError
from fedkin.measures.gram import gram


def gradient_dissimilarity(
    gradients: Float[np.ndarray, "n P"], weights: Real[np.ndarray, "_"] | None = None
) -> float:
    """Gradient dissimilarity B^2 = sum_i p_i |g_i|^2 / |sum_i p_i g_i|^2.

    g_i is the gradient of client i and p_i its weight. B^2 is 1 if all gradients are equal, grows
    the more they cancel each other, and is infinite if their mean is zero.

    It is the square of FedProx's local dissimilarity (Li et al., MLSys 2020, definition 3), at the
    model where the gradients were computed. The gradient diversity of Yin et al. (AISTATS 2018),
    sum_i |g_i|^2 / |sum_i g_i|^2, is B^2 / n if all weights are equal. ``weights`` p are shares of
    the samples (any positive numbers); equal by default. The gradients of small clients are noisy,
    which increases the value. So compare it with the value of clients with the same sizes and IID
    data.

    Raises:
        MethodError: there are no gradients, a gradient is not finite, all are zero, or the weights
            are invalid.
    """
    n = len(gradients)
    shares = np.full(n, 1.0) if weights is None else weights.astype(np.float64)
    if not n or not np.isfinite(gradients).all() or not gradients.any():
        raise MethodError("the dissimilarity needs finite gradients that are not all zero")
    if shares.shape != (n,) or not (shares >= 0).all() or not 0 < shares.sum() < np.inf:
        raise MethodError(f"weights must be {n} numbers from 0 up, not all zero")
    shares = shares / shares.sum()
    # |sum_i p_i g_i|^2 = sum_ij p_i p_j <g_i, g_j>, so the inner products suffice.
    inner: Float64[np.ndarray, "n n"] = gram(gradients)
    mean = float(shares @ inner @ shares)
    return float(shares @ inner.diagonal()) / mean if mean > 0 else float("inf")
