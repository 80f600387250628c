"""Quantiles: a model predicts several quantiles of a real number, by the pinball loss (Koenker &
Bassett 1978).

Levels that cross are put in order when a model predicts. This never raises the summed pinball loss
(Chernozhukov, Fernandez-Val & Galichon 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError
from fedkin.measures.intervals import wilson_interval
from fedkin.task_types.loss import Loss, Targets, targets_of
from fedkin.task_types.task_type import Sums, TaskType, check_finite, gain_over, share_of


@dataclass(frozen=True)
class Pinball(Loss):
    """max(q (y - s), (q - 1)(y - s)), summed over the levels q. A model has one output for each
    level.

    Attributes:
        levels: the quantiles, in ascending order, between 0 and 1.
    """

    name = "quantile"
    levels: tuple[float, ...] = (0.1, 0.5, 0.9)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(set(self.levels)))
        inside = all(0 < level < 1 for level in self.levels)
        if not self.levels or not inside or ordered != self.levels:
            raise ConfigError(
                "data.quantiles must be different levels between 0 and 1 in ascending order, such "
                f"as [0.1, 0.5, 0.9]; got {list(self.levels)}"
            )

    @property
    def outputs(self) -> int:
        return len(self.levels)

    def of(self, xp: Any, scores: Any, targets: Targets) -> Any:
        by_level = self.by_level(xp, scores, targets)
        total = by_level[0]
        for one in by_level[1:]:
            total = total + one
        return total

    def deviations(
        self, scores: Float[np.ndarray, "B C"], targets: Targets
    ) -> Float[np.ndarray, "B"]:
        """The losses, whose mean is the scale of an asymmetric Laplace distribution."""
        return self.of(np, scores, targets)

    def mixed(
        self, scores: list[Float[np.ndarray, "B C"]], shares: Float[np.ndarray, "K #B"]
    ) -> Float[np.ndarray, "B C"]:
        """The means of the models' quantiles, level by level (Vincent 1912). They are not the
        quantiles of the mixture of the distributions."""
        return super().mixed([in_order(np, of_model) for of_model in scores], shares)

    def by_level(self, xp: Any, scores: Any, targets: Targets) -> list[Any]:
        """The pinball loss [B] of each level."""
        losses = []
        for column, level in enumerate(self.levels):
            residual = targets.label - scores[:, column] - targets.offset
            # Where label and score are equal the gradient is 0, in JAX and PyTorch alike.
            below = xp.where(residual < 0, (level - 1) * residual, 0 * residual)
            losses.append(xp.where(residual > 0, level * residual, below))
        return losses


@dataclass(frozen=True)
class Quantile(TaskType):
    """A model predicts several quantiles of a real number.

    Args:
        loss: the pinball loss of the levels.
    """

    name = "quantile"
    sums = ("pinball_loss", "covered", "width", "constant_pinball_loss")
    counts = ("covered",)
    loss: Pinball = Pinball()  # type: ignore[assignment]

    @property
    def level(self) -> float:
        """The share of labels that should lie between the lowest and the highest quantile."""
        return self.loss.levels[-1] - self.loss.levels[0]

    @property
    def measures(self) -> tuple[str, ...]:
        if len(self.loss.levels) == 1:
            return "mean_pinball_loss", "d2_pinball_score"
        of_interval = ("coverage", "coverage_gap", "interval_width")
        return "mean_pinball_loss", "d2_pinball_score", *of_interval

    @property
    def constant_levels(self) -> tuple[float, ...]:
        return self.loss.levels

    def constant_of(self, labels: Float[np.ndarray, "t"]) -> tuple[float, ...]:
        return tuple(np.quantile(labels, self.loss.levels).tolist())

    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        targets = targets_of(y)
        ordered = in_order(xp, scores)
        low = ordered[:, 0] + targets.offset
        high = ordered[:, -1] + targets.offset
        covered = (low <= targets.label) & (targets.label <= high)
        return self.loss.of(xp, ordered, targets), covered, high - low

    def constant_scores(self, y: Any) -> tuple[Any, ...]:
        return super().constant_scores(y)[:1]

    def predict(
        self,
        scores: Float[np.ndarray, "B C"],
        exposure: Float[np.ndarray, "B"] | None = None,
    ) -> Float[np.ndarray, "B C"]:
        """The quantiles of each sample in ascending order, in units of the label."""
        ordered = in_order(np, scores.astype(np.float64))
        return ordered * self.label.scale + self.label.mean

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        scale = self.label.scale
        levels = len(self.loss.levels)
        return {
            "mean_pinball_loss": scale * share_of(sums["pinball_loss"], examples) / levels,
            "d2_pinball_score": gain_over(sums["pinball_loss"], sums["constant_pinball_loss"]),
            "coverage": share_of(sums["covered"], examples),
            "coverage_gap": share_of(sums["covered"], examples) - self.level,
            "interval_width": scale * share_of(sums["width"], examples),
        }

    def intervals(self, sums: Sums, examples: Any) -> dict[str, tuple[float, float]]:
        """Wilson's interval of the coverage minus its level."""
        if len(self.loss.levels) == 1 or not examples:
            return {}
        covered = np.array([round(float(sums["covered"]))])
        low, high = wilson_interval(covered, np.array([examples]))
        return {"coverage_gap": (float(low[0]) - self.level, float(high[0]) - self.level)}

    def check_labels(self, labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
        check_finite(labels, place, clients)


def in_order(xp: Any, scores: Any) -> Any:
    """Predicted quantiles [B Q] in ascending order."""
    ordered = xp.sort(scores, -1)
    return getattr(ordered, "values", ordered)  # PyTorch also returns the positions
