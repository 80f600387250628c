"""Mixtures of models: the probability of each component for each sample. Shapes: K components, t
samples."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def responsibilities(
    losses: Float[np.ndarray, "K t"], log_prior: Float[np.ndarray, "K t"]
) -> Float[np.ndarray, "K t"]:
    """E-step of a mixture: the probability of each component for each sample, proportional to prior
    * exp(-loss).

    Args:
        losses: loss of every component on every sample.
        log_prior: log prior of each component; -inf for an impossible component.

    Returns:
        Probabilities that sum to 1 over components; NaN for a sample with a NaN loss.
    """
    logits = log_prior - np.asarray(losses, np.float64)
    weights = np.exp(logits - logits.max(axis=0))
    return weights / weights.sum(axis=0)


def log_softmax(scores: Float[np.ndarray, "... C"]) -> Float[np.ndarray, "... C"]:
    """Log probabilities of the classes from scores (log-softmax over the last axis)."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
