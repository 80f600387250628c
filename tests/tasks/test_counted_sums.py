"""Sums that count samples, such as correct predictions, are at most the number of samples. The task
type says which ones they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import TaskError
from fedkin.core.replies import ReplyBuilder
from fedkin.core.training import LocalTraining
from fedkin.task_types.catalogue import TASK_TYPES
from fedkin.task_types.classification import Classification
from fedkin.task_types.count import Count
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.quantile import Quantile
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.train import Train

SAMPLES = 4


def evaluated(task_type: TaskType, **sums: float) -> None:
    """Read the reply of a client with these sums, and 1 for all others."""
    task = Evaluate(np.zeros((1, 2), np.float32), np.zeros(1, np.int64))
    sizes = {"P": 2, "C": 3, "K": 1, "n": 1, **task_type.sizes()}
    row = [sums.get(name, 1.0) for name in task_type.sums]
    arrays = {
        "sums": np.array([row], np.float64),
        "examples": np.array([SAMPLES]),
        "loss": np.array([0.5]),
    }
    ReplyBuilder(task, 1, sizes, task_type.counted).add(np.array([0]), arrays)


@pytest.mark.parametrize(
    ("task_type", "counted"),
    [
        (Classification(), "correct"),
        (Survival(), "correct"),
        (Quantile(), "covered"),
        (Forecast(), "scaled"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_no_sum_counts_more_samples_than_there_are(task_type: TaskType, counted: str) -> None:
    evaluated(task_type, **{counted: SAMPLES})
    for wrong in (SAMPLES + 1.0, np.nan):
        with pytest.raises(TaskError, match="more correct samples than samples"):
            evaluated(task_type, **{counted: wrong})
    for other in set(task_type.sums) - {counted}:
        evaluated(task_type, **{other: 100.0})


def test_a_single_sum_need_not_count_samples() -> None:
    class Amounts(Count):
        sums = ("deviance",)

    evaluated(Amounts(), deviance=100.0)
    assert Amounts().highest == np.inf


def test_the_score_of_classes_alone_has_an_upper_bound() -> None:
    bounded = {name for name, kind in TASK_TYPES.items() if kind().highest == 1}
    assert bounded == {"classification", "survival"}


@pytest.mark.parametrize("test_sums", [[0.0, 5.0, 0.0, 0.0, -1.0, 0.0], [0, 5.0, 0, 0, 4.0, 0.5]])
def test_scores_before_training_are_bounded_too(test_sums: list[float]) -> None:
    """Five covered samples of four, and a negative number of samples."""
    task = Train(np.zeros((1, 2), np.float32), LocalTraining(), np.zeros(1, np.int64), test=True)
    arrays: dict[str, Any] = {"test_sums": np.array(test_sums)}
    with pytest.raises(TaskError, match="impossible numbers of samples"):
        task.check_sums(arrays, Quantile().counted)
    arrays["test_sums"] = np.array([9.0, 3.0, 7.0, 8.0, 4.0, 0.5])
    task.check_sums(arrays, Quantile().counted)
