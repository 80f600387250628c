"""The class ``Loss``: the loss of a sample, as one formula for NumPy, JAX and PyTorch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client_engine import sums_by_row

# Above this score, the exponential is continued by its tangent. exp(s) overflows float32 at 88.7,
# and a clipped exponential has gradient 0, so that a model outside could never return.
TANGENT_ABOVE = 20.0


class Targets(NamedTuple):
    """The columns of ``FederatedData.y`` that a loss reads."""

    label: Any  # [B]
    offset: Any  # [B], added to the score: the log of the exposure; 0.0 without one
    weight: Any  # [B], weight of the sample; None if all are 1


def targets_of(y: Any) -> Targets:
    """The label, offset and weight of samples.

    Args:
        y: labels [B], or columns [B q]: label and, if there are more, offset and weight.
    """
    if y.ndim == 1:
        return Targets(y, 0.0, None)
    offset = y[:, 1] if y.shape[1] > 1 else 0.0
    weight = y[:, 2] if y.shape[1] > 2 else None
    return Targets(y[:, 0], offset, weight)


def relative_weights(y: np.ndarray, sizes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "t"] | None:
    """The weight of each sample, divided by the mean weight of its client's samples. So a client
    counts by its number of samples, whatever the unit of its weights. None if all weights are 1.

    Args:
        y: rows of ``FederatedData.y`` of some clients, concatenated.
        sizes: number of samples of each client.
    """
    weight = targets_of(y).weight
    if weight is None or (weight == 1).all():
        return None
    mean = sums_by_row(weight, sizes) / np.maximum(sizes, 1)
    return weight / np.repeat(mean, sizes)


@dataclass(frozen=True)
class Loss(ABC):
    """The loss of a sample. Its options are fields, so equal losses share compiled programs.

    A formula gets the module of its arrays as ``xp``: ``numpy``, ``jax.numpy`` or ``torch``. It
    uses only functions that the three have.
    """

    name: ClassVar[str]
    link: ClassVar[str] = "identity"  # the predicted mean is the inverse link of the score

    @property
    def outputs(self) -> int:
        """Number of outputs of a model."""
        return 1

    @abstractmethod
    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        """The loss [B] of each sample.

        Args:
            xp: module of the arrays.
            scores: outputs of the model [B C].
            targets: labels, offsets and weights of the samples. The weights are not applied here.
        """

    def mean(self, xp: Any, scores: Any, offset: Any) -> Any:
        """The predicted value [B] of each sample: the inverse link of its score.

        An offset multiplies a positive mean by exp(offset), the exposure, with either link.
        """
        score = scores[:, 0]
        if self.link == "identity":
            return score + offset
        rate = softplus(xp, score) if self.link == "softplus" else exponential(xp, score)
        return rate * exposure_of(xp, score, offset)

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """What each sample adds to the dispersion phi, which is the mean of these numbers.

        exp(-loss / phi) is proportional to a likelihood: phi is the variance for squares, and how
        many times the variance exceeds the loss's own for counts. The default is 1: the loss is a
        log likelihood already.
        """
        del targets
        return np.ones(len(scores))

    def mixed(
        self, scores: list[Float[np.ndarray, "B C"]], shares: Float[np.ndarray, "K #B"]
    ) -> Float[np.ndarray, "B C"]:
        """The scores of a mixture of models: the predicted means are mixed, not the scores.

        Args:
            scores: scores of each of the K models.
            shares: weight of each model for each sample; they sum to 1 over models.
        """
        columns = np.asarray(shares, np.float64)[:, :, None]
        stacked = np.stack(scores).astype(np.float64)
        if self.link == "identity":
            return (columns * stacked).sum(axis=0)
        if self.link == "softplus":
            return inverse_softplus((columns * np.logaddexp(0, stacked)).sum(axis=0))
        with np.errstate(divide="ignore"):
            log_means = np.log(columns) + log_exponential(stacked)
        return inverse_log_exponential(np.logaddexp.reduce(log_means, axis=0))


def exponential(xp: Any, s: Any) -> Any:
    """exp(s), continued by its tangent above ``TANGENT_ABOVE``: finite, with a gradient that leads
    back. Offsets are not part of s, so they never meet the tangent."""
    # Each branch must be finite everywhere: JAX differentiates both.
    below = xp.exp(xp.clip(s, None, TANGENT_ABOVE))
    above = math.exp(TANGENT_ABOVE) * (1 + s - TANGENT_ABOVE)
    return xp.where(s > TANGENT_ABOVE, above, below)


def log_exponential(s: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """log(``exponential(s)``) without underflow."""
    beyond = np.maximum(s - TANGENT_ABOVE, 0)
    return np.minimum(s, TANGENT_ABOVE) + np.log1p(beyond)


def inverse_log_exponential(log_mean: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The score s at which log(``exponential(s)``) has a value."""
    beyond = np.maximum(log_mean - TANGENT_ABOVE, 0)
    return np.minimum(log_mean, TANGENT_ABOVE) + np.expm1(beyond)


def softplus(xp: Any, s: Any) -> Any:
    """log(1 + exp(s)) without overflow."""
    return xp.logaddexp(xp.zeros_like(s), s)


def inverse_softplus(mean: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The score s at which ``softplus(s)`` has a value, without overflow."""
    return mean + np.log(-np.expm1(-np.maximum(mean, np.finfo(np.float64).tiny)))


def exposure_of(xp: Any, score: Any, offset: Any) -> Any:
    """exp(offset) [B].

    Args:
        xp: module of the arrays.
        score: an output of the model [B], which has the type of the result.
        offset: offset of each sample, or one number for all.
    """
    return xp.exp(xp.zeros_like(score) + offset)
