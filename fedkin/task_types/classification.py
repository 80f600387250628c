"""Classification: labels are classes 0 .. C-1, and a model has one output for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.measures.scores import ACCURACY
from fedkin.task_types.loss import Loss
from fedkin.task_types.task_type import Sums, TaskType, share_of


@dataclass(frozen=True)
class Classification(TaskType):
    """Labels are classes. The loss is the cross entropy of the softmax over the outputs; a detector
    has one output and a binary cross entropy."""

    name = "classification"
    sums = ("correct",)
    least_ranked = 1  # a client of few samples counts, as in the papers
    counts = ("correct",)

    @property
    def loss(self) -> Loss | None:
        return None

    @property
    def measures(self) -> tuple[str, ...]:
        return (ACCURACY,)

    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        return (scores.argmax(-1) == y,)

    def sample_losses(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        highest = scores.max(axis=1)
        total = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
        return total - scores[np.arange(len(y)), y]

    def score_losses(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        return self.sample_losses(scores.astype(np.float64), y)

    def score_loss_sums(
        self,
        sums: Float[np.ndarray, "n S"],
        loss: Float[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n"]:
        del sums
        return loss * examples

    def sample_errors(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        return (scores.argmax(axis=1) != y).astype(np.float64)

    def bounded_losses(
        self,
        sums: Float[np.ndarray, "n S"],
        loss: Float[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n"]:
        """One minus the geometric mean of the probabilities of the true classes."""
        del sums
        mean = np.asarray(loss, np.float64) / np.maximum(examples, 1)
        # The loss of a model that has diverged is NaN or infinite.
        return -np.expm1(-np.nan_to_num(mean, nan=np.inf))

    def constant_scores(self, y: Any) -> tuple[Any, ...]:
        return ()

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        return {"accuracy": share_of(sums["correct"], examples)}


CLASSIFICATION = Classification()


def task_type_of_samples(samples: Any) -> TaskType:
    """What the labels of samples are: classes, unless the samples say otherwise.

    Args:
        samples: federated data, or a description of samples.
    """
    return getattr(samples, "task_type", CLASSIFICATION)
