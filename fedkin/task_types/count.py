"""Counts and amounts that are not negative: the mean is exp(score + offset), and the offset is the
log of the exposure (years of observation, beds).

Losses leave out the terms that do not depend on the model, so a loss may be negative. Deviances
are never negative; they are summed over samples. Sources: McCullagh & Nelder, Generalized Linear
Models (1989); Jorgensen (1987) for Tweedie; Hilbe, Negative Binomial Regression (2011).

Labels are not scaled. The log of the pooled rate of the training samples (sum of labels / sum of
exposures) is part of the offset, so scores are relative to this rate. With the log link, a model
that starts at 0 starts at this rate; with the link softplus it starts at log(2) = 0.69 of it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.object_repr import of_client
from fedkin.task_types.loss import (
    Loss,
    Targets,
    exponential,
    exposure_of,
    inverse_log_exponential,
    inverse_softplus,
    targets_of,
)
from fedkin.task_types.task_type import (
    Sums,
    TaskType,
    check_finite,
    gain_over,
    row_of,
    share_of,
)

LEAST_MEAN = 1e-12  # smaller predicted means count as this one, so that logs are finite
_LINKS = ("log", "softplus")


@dataclass(frozen=True)
class CountLoss(Loss):
    """A loss with a deviance."""

    link = "log"

    @abstractmethod
    def deviance(self, xp: Any, y: Any, mean: Any) -> Any:
        """The deviance [B] of each sample: twice its distance to the log likelihood of a perfect
        prediction; 0 for a perfect one. By rounding, it may be slightly negative."""

    def score_of_rate(self, rate: float) -> float:
        """The score at which a model predicts a rate, by the inverse of the link.

        Args:
            rate: predicted mean for an offset of 0, above 0.
        """
        rates = np.array([rate], np.float64)
        if self.link == "softplus":
            return float(inverse_softplus(rates)[0])
        return float(inverse_log_exponential(np.log(rates))[0])

    @abstractmethod
    def variance(self, mean: Float[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        """The variance of a count with this mean, where the dispersion is 1."""

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """Squared residuals over the variance (Pearson's chi squared), whose mean is the
        dispersion."""
        mean = np.maximum(self.mean(np, scores, targets.offset), LEAST_MEAN)
        return (targets.label - mean) ** 2 / self.variance(mean)


@dataclass(frozen=True)
class Poisson(CountLoss):
    """mu - y log mu: counts whose variance is their mean.

    Attributes:
        link: ``log`` for mu = exp(s), as software for generalised linear models has it; or
            ``softplus`` for mu = log(1 + exp(s)), whose gradients are bounded.
    """

    name = "poisson"
    link: str = "log"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.link not in _LINKS:
            raise ConfigError(
                f"{unknown('value of data.link', str(self.link), _LINKS)}; for example data.link = "
                "'softplus'"
            )

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        mean = self.mean(xp, scores, targets.offset)
        if self.link == "softplus":
            return mean - targets.label * xp.log(xp.clip(mean, LEAST_MEAN, None))
        return mean - targets.label * (scores[:, 0] + targets.offset)

    def variance(self, mean: Float[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        return mean

    def deviance(self, xp: Any, y: Any, mean: Any) -> Any:
        return 2 * (y_log_ratio(xp, y, mean) - y + mean)


@dataclass(frozen=True)
class Gamma(CountLoss):
    """s + y exp(-s): positive amounts whose standard deviation is proportional to their mean."""

    name = "gamma"

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        score = scores[:, 0]
        relative = targets.label / exposure_of(xp, score, targets.offset)
        return score + targets.offset + relative * exponential(xp, -score)

    def variance(self, mean: Float[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        return mean**2

    def deviance(self, xp: Any, y: Any, mean: Any) -> Any:
        ratio = y / xp.clip(mean, LEAST_MEAN, None)
        return 2 * (ratio - 1 - xp.log(xp.clip(ratio, LEAST_MEAN, None)))


@dataclass(frozen=True)
class Tweedie(CountLoss):
    """mu^(2-p) / (2-p) - y mu^(1-p) / (1-p) with mu = exp(s): amounts that are 0 or positive.

    Attributes:
        power: p, above 1 (Poisson) and below 2 (Gamma).
    """

    name = "tweedie"
    power: float = 1.5

    def __post_init__(self) -> None:
        if not 1 < self.power < 2:
            raise ConfigError(
                f"data.power must be above 1 and below 2, such as 1.5; got {self.power!r} (1 is "
                'loss = "poisson", 2 is loss = "gamma")'
            )

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        p = self.power
        score = scores[:, 0]
        exposure = exposure_of(xp, score, targets.offset)
        growing = exposure ** (2 - p) * exponential(xp, (2 - p) * score) / (2 - p)
        falling = exposure ** (1 - p) * exponential(xp, (1 - p) * score) / (1 - p)
        return growing - targets.label * falling

    def variance(self, mean: Float[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        return mean**self.power

    def deviance(self, xp: Any, y: Any, mean: Any) -> Any:
        p = self.power
        mean = xp.clip(mean, LEAST_MEAN, None)
        perfect = y ** (2 - p) / ((1 - p) * (2 - p))
        return 2 * (perfect - y * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p))


@dataclass(frozen=True)
class NegativeBinomial(CountLoss):
    """(y + 1/a) log(1 + a mu) - y log(a mu): counts with variance mu + a mu^2.

    Attributes:
        overdispersion: a, above 0.
    """

    name = "negative_binomial"
    overdispersion: float = 1.0

    def __post_init__(self) -> None:
        if not self.overdispersion > 0:
            raise ConfigError(
                f"data.overdispersion must be above 0, such as 1.0; got {self.overdispersion}"
            )

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        score = scores[:, 0] + targets.offset
        log_product = score + math.log(self.overdispersion)  # log(a mu)
        log_sum = xp.logaddexp(xp.zeros_like(log_product), log_product)  # log(1 + a mu)
        return (targets.label + 1 / self.overdispersion) * log_sum - targets.label * log_product

    def variance(self, mean: Float[np.ndarray, "B"]) -> Float[np.ndarray, "B"]:
        return mean + self.overdispersion * mean**2

    def deviance(self, xp: Any, y: Any, mean: Any) -> Any:
        size = 1 / self.overdispersion
        return 2 * (y_log_ratio(xp, y, mean) - y_log_ratio(xp, y + size, mean + size))


def y_log_ratio(xp: Any, y: Any, mean: Any) -> Any:
    """y log(y / mean), and 0 where y is 0.

    Args:
        xp: module of the arrays: ``numpy``, ``jax.numpy`` or ``torch``.
        y: counts.
        mean: predicted means.
    """
    present = xp.where(y > 0, y, xp.ones_like(y))
    ratio = present / xp.clip(mean, LEAST_MEAN, None)
    return xp.where(y > 0, y * xp.log(ratio), xp.zeros_like(y))


LOSSES: dict[str, type[CountLoss]] = {
    loss.name: loss for loss in (Poisson, Gamma, Tweedie, NegativeBinomial)
}


@dataclass(frozen=True)
class Count(TaskType):
    """Labels are counts, or amounts that are not negative.

    Args:
        loss: the training loss: ``Poisson``, ``Gamma``, ``Tweedie`` or ``NegativeBinomial``.
    """

    name = "count"
    sums = ("deviance", "absolute_error", "constant_deviance", "constant_absolute_error")
    loss: CountLoss = Poisson()  # type: ignore[assignment]

    @property
    def scales_by_rate(self) -> bool:
        return True

    def constant_of(self, labels: Float[np.ndarray, "t"]) -> tuple[float, ...]:
        """The score of the pooled rate, by which the offsets multiply rates already."""
        del labels
        return (self.loss.score_of_rate(1.0),)

    @property
    def measures(self) -> tuple[str, ...]:
        return "mean_deviance", "mean_absolute_error", "d2_score"

    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        targets = targets_of(y)
        mean = self.loss.mean(xp, scores, targets.offset)
        # Replies with negative sums are refused, and rounding makes a deviance of 0 negative.
        deviance = xp.clip(self.loss.deviance(xp, targets.label, mean), 0, None)
        return deviance, xp.abs(targets.label - mean)

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        return {
            "mean_deviance": share_of(sums["deviance"], examples),
            "mean_absolute_error": share_of(sums["absolute_error"], examples),
            "d2_score": gain_over(sums["deviance"], sums["constant_deviance"]),
        }

    def check_labels(self, labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
        check_finite(labels, place, clients)
        wrong = labels < 0
        if wrong.any():
            row = row_of(wrong)
            raise DataError(
                f"{place}: the count in row {row}{of_client(clients, row)} is {labels[row]:g} "
                f"({int(wrong.sum())} such rows); "
                'counts are 0 or more. For numbers of any sign, set task = "regression"'
            )
        if isinstance(self.loss, Gamma) and not labels.all():
            row = row_of(labels == 0)
            raise DataError(
                f"{place}: the label in row {row}{of_client(clients, row)} is 0, but "
                'loss = "gamma" needs labels above 0; '
                'use loss = "tweedie" for amounts that may be 0'
            )
