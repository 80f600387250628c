"""Half-and-half mixtures of two models: their predicted means or probabilities are averaged.

Shapes: B samples, C outputs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import ConfigError
from fedkin.export.predictor import probabilities
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

# Labels of numbers are scaled to standard deviation 1. A residual of more than 3 standard
# deviations counts as 3, so that no sample decides alone.
_LARGEST = {"squared_error": 9.0, "absolute_error": 3.0}


def check_task_type(task_type: TaskType) -> None:
    """Raise ConfigError for survival, whose losses are not those of single samples."""
    if isinstance(task_type, Survival):
        raise ConfigError(
            "the rule compares losses of single samples, and the loss of survival belongs to a "
            "risk set; compare the C-index of runs instead: fedkin compare with methods local, "
            "fedavg and the clustered ones"
        )


def half_and_half(
    task_type: TaskType, one: Float[np.ndarray, "B C"], other: Float[np.ndarray, "B C"]
) -> Float[np.ndarray, "B C"]:
    """The scores of the mixture of two models with equal weights.

    Args:
        task_type: what the labels are.
        one: scores of one model.
        other: scores of the other model, for the same samples.
    """
    shares = np.full((2, 1), 0.5)
    loss = task_type.loss
    if loss is not None:
        return loss.mixed([one, other], shares)
    mean = (probabilities(one) + probabilities(other)) / 2
    with np.errstate(divide="ignore"):
        return np.log(mean)


def largest_loss(task_type: TaskType) -> float:
    """The loss that larger ones of a sample count as."""
    return _LARGEST.get(task_type.score_sum, np.inf)
