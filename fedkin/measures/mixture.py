"""Mixtures of shared models: which component each sample is of. Shapes: K components, t samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def responsibilities(
    losses: Float[np.ndarray, "K t"], log_prior: Float[np.ndarray, "K t"]
) -> Float[np.ndarray, "K t"]:
    """The probability that a sample is of each component (the E-step): proportional to prior
    exp(-loss).

    Args:
        losses: of every component on every sample.
        log_prior: logarithms of the prior of each component; -inf: it is not possible.

    Returns:
        Numbers that sum to 1 over components; NaN for a sample with a loss that is NaN.
    """
    logits = log_prior - np.asarray(losses, np.float64)
    weights = np.exp(logits - logits.max(axis=0))
    return weights / weights.sum(axis=0)


def log_softmax(scores: Float[np.ndarray, "... C"]) -> Float[np.ndarray, "... C"]:
    """Logarithms of the probabilities of classes."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
