"""The list of task types. A new one is a file in this folder and a line here."""

from __future__ import annotations

from fedkin.task_types.classification import Classification
from fedkin.task_types.count import Count
from fedkin.task_types.quantile import Quantile
from fedkin.task_types.regression import Regression
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

TASK_TYPES: dict[str, type[TaskType]] = {
    kind.name: kind for kind in (Classification, Regression, Count, Quantile, Survival)
}
