"""Divergence of the clients' label distributions from the distribution of all samples.

Shapes: N clients, C classes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int

from fedkin.core.errors import MethodError


def label_divergence(counts: Int[np.ndarray, "N C"]) -> Float64[np.ndarray, "N"]:
    """The Jensen-Shannon divergence (Lin 1991), in bits, of each client's label distribution p_i
    from the distribution q of all samples.

    It is 1/2 KL(p_i | m) + 1/2 KL(q | m) with m the mean of p_i and q: from 0 (equal) to 1 (no
    common class).

    Raises:
        MethodError: a client without a label, or a negative count.
    """
    if counts.min(initial=0) < 0 or (counts.sum(axis=1) == 0).any():
        raise MethodError(
            "label counts must not be negative, and every client needs at least one label"
        )
    p = counts / counts.sum(axis=1, keepdims=True)
    q = np.broadcast_to(counts.sum(axis=0) / counts.sum(), p.shape)
    mean = (p + q) / 2
    return np.clip((_divergence(p, mean) + _divergence(q, mean)) / 2, 0, 1)


def _divergence(
    p: Float64[np.ndarray, "N C"], q: Float64[np.ndarray, "N C"]
) -> Float64[np.ndarray, "N"]:
    """KL(p | q) in bits; classes without mass in p contribute 0."""
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    return (p * np.log2(ratio)).sum(axis=1)
