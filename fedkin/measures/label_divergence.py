"""Divergence of the clients' label distributions from the distribution of all samples.

The labels are classes, or numbers that were counted in bins (``fedkin.measures.number_bins``).

Shapes: N clients, C classes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int

from fedkin.core.errors import MethodError


def label_divergence(counts: Int[np.ndarray, "N C"]) -> Float64[np.ndarray, "N"]:
    """Jensen-Shannon divergence (Lin 1991), in bits, between each client's label distribution p_i
    and the distribution q of all samples.

    It is 1/2 KL(p_i | m) + 1/2 KL(q | m), with m the mean of p_i and q. It is 0 if both are equal,
    and 1 if they have no class in common.

    Raises:
        MethodError: a client has no labels, or a count is negative.
    """
    if counts.min(initial=0) < 0 or (counts.sum(axis=1) == 0).any():
        raise MethodError(
            "label counts must not be negative, and every client needs at least one label"
        )
    p = counts / counts.sum(axis=1, keepdims=True)
    q = np.broadcast_to(counts.sum(axis=0) / counts.sum(), p.shape)
    return jensen_shannon(p, q)


def jensen_shannon(
    p: Float64[np.ndarray, "N C"], q: Float64[np.ndarray, "N C"]
) -> Float64[np.ndarray, "N"]:
    """Jensen-Shannon divergence, in bits, of each pair of distributions: 0 if they are equal, 1 if
    they have nothing in common.

    Args:
        p: shares of each class or bin; each row sums to 1.
        q: shares of the other distributions.
    """
    mean = (p + q) / 2
    return np.clip((_divergence(p, mean) + _divergence(q, mean)) / 2, 0, 1)


def _divergence(
    p: Float64[np.ndarray, "N C"], q: Float64[np.ndarray, "N C"]
) -> Float64[np.ndarray, "N"]:
    """Kullback-Leibler divergence KL(p | q) in bits. Classes with p = 0 contribute 0."""
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return (p * np.log2(ratio)).sum(axis=1)
