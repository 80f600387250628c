"""Regression: labels are real numbers.

The losses are those of scikit-learn with the same names (``epsilon`` of its ``HuberRegressor`` is
``delta`` here). Labels are scaled by the pooled mean and standard deviation of the training
samples, so ``delta`` and learning rates are in units of that deviation. Measures are in units of
the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError
from fedkin.task_types.loss import Loss, Targets, targets_of
from fedkin.task_types.task_type import Sums, TaskType, check_finite, gain_over, share_of


@dataclass(frozen=True)
class SquaredError(Loss):
    """(y - s)^2 / 2, whose minimum is the mean."""

    name = "squared_error"

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        residual = targets.label - scores[:, 0] - targets.offset
        return residual**2 / 2

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """Squared residuals, whose mean is the variance of a normal distribution."""
        return 2 * self.of(np, scores, targets)


@dataclass(frozen=True)
class AbsoluteError(Loss):
    """abs(y - s), whose minimum is the median."""

    name = "absolute_error"

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        residual = targets.label - scores[:, 0] - targets.offset
        # Where label and score are equal the gradient is 0, in JAX and PyTorch alike.
        below = xp.where(residual < 0, -residual, 0 * residual)
        return xp.where(residual > 0, residual, below)

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """Absolute residuals, whose mean is the scale of a Laplace distribution."""
        return self.of(np, scores, targets)


@dataclass(frozen=True)
class Huber(Loss):
    """Squared error of small residuals and absolute error of large ones (Huber 1964).

    Attributes:
        delta: residual at which the loss becomes linear. 1.35 standard deviations keep 95% of the
            efficiency of squared error for normal residuals.
    """

    name = "huber"
    delta: float = 1.35

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise ConfigError(f"data.delta must be above 0, such as 1.35; got {self.delta!r}")

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        residual = targets.label - scores[:, 0] - targets.offset
        size = xp.abs(residual)
        linear = self.delta * (size - self.delta / 2)
        return xp.where(size <= self.delta, residual**2 / 2, linear)

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """Residual times gradient: the squared residual where the loss is a square, and delta times
        its size where it is linear."""
        size = np.abs(targets.label - scores[:, 0] - targets.offset)
        return size * np.minimum(size, self.delta)


@dataclass(frozen=True)
class GaussianLikelihood(Loss):
    """t + (y - s)^2 exp(-2 t) / 2: the negative log likelihood of a normal distribution with mean s
    and log standard deviation t, without its constant. A model has the two outputs s and t."""

    name = "gaussian_nll"
    widest = 7.0  # t is cut to [-7, 7]

    @property
    def outputs(self) -> int:
        return 2

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        residual = targets.label - scores[:, 0] - targets.offset
        log_scale = xp.clip(scores[:, 1], -self.widest, self.widest)
        return log_scale + residual**2 * xp.exp(-2 * log_scale) / 2

    def mixed(
        self, scores: list[Float[np.ndarray, "B C"]], shares: Float[np.ndarray, "K #B"]
    ) -> Float[np.ndarray, "B C"]:
        """Mean and log standard deviation of the mixture of normal distributions."""
        stacked = np.stack(scores).astype(np.float64)
        centre = stacked[:, :, 0]
        variance = np.exp(2 * np.clip(stacked[:, :, 1], -self.widest, self.widest))
        mean = (shares * centre).sum(axis=0)
        spread = (shares * (variance + (centre - mean) ** 2)).sum(axis=0)
        return np.stack([mean, np.log(spread) / 2], axis=1)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (SquaredError, AbsoluteError, Huber, GaussianLikelihood)
}


@dataclass(frozen=True)
class Regression(TaskType):
    """Labels are real numbers.

    Args:
        loss: the training loss: ``SquaredError``, ``AbsoluteError``, ``Huber`` or
            ``GaussianLikelihood``.
    """

    name = "regression"
    sums = ("squared_error", "absolute_error", "constant_squared_error", "constant_absolute_error")
    loss: Loss = SquaredError()  # type: ignore[assignment]

    @property
    def measures(self) -> tuple[str, ...]:
        if isinstance(self.loss, AbsoluteError):
            return "mean_absolute_error", "root_mean_squared_error", "r2_score"
        return "root_mean_squared_error", "mean_absolute_error", "r2_score"

    @property
    def score_sum(self) -> str:
        return "absolute_error" if isinstance(self.loss, AbsoluteError) else "squared_error"

    @property
    def constant_levels(self) -> tuple[float, ...]:
        return (0.5,) if isinstance(self.loss, AbsoluteError) else ()

    def constant_of(self, labels: Float[np.ndarray, "t"]) -> tuple[float, ...]:
        best = float(np.median(labels)) if isinstance(self.loss, AbsoluteError) else 0.0
        return (best, *[0.0] * (self.loss.outputs - 1))

    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        targets = targets_of(y)
        residual = targets.label - self.loss.mean(xp, scores, targets.offset)
        return residual**2, xp.abs(residual)

    def constant_scores(self, y: Any) -> tuple[Any, ...]:
        """Squared errors about the pooled mean, for R2, and absolute errors of the constant, which
        is the median if the loss is the absolute error."""
        targets = targets_of(np.asarray(y, np.float64))
        label = targets.label - targets.offset
        return (label - self.centre) ** 2, np.abs(label - self.constant[0])

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        scale = self.label.scale
        squared = share_of(sums["squared_error"], examples)
        return {
            "root_mean_squared_error": scale * np.sqrt(squared),
            "mean_absolute_error": scale * share_of(sums["absolute_error"], examples),
            "r2_score": gain_over(sums["squared_error"], sums["constant_squared_error"]),
        }

    def check_labels(self, labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
        check_finite(labels, place, clients)
