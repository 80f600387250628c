"""The list of task types and of their losses, and task types as values for JSON.

A new task type is a file in this folder and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedkin.core.errors import DataError
from fedkin.task_types.classification import Classification
from fedkin.task_types.count import LOSSES as OF_COUNTS
from fedkin.task_types.count import Count
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.loss import Loss
from fedkin.task_types.quantile import Pinball, Quantile
from fedkin.task_types.regression import LOSSES as OF_NUMBERS
from fedkin.task_types.regression import Regression
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import LabelScale, TaskType

TASK_TYPES: dict[str, type[TaskType]] = {
    kind.name: kind for kind in (Classification, Regression, Count, Quantile, Survival, Forecast)
}

# The losses of each task type, by name. The first one is its default.
LOSSES: dict[str, dict[str, type[Loss]]] = {
    Regression.name: dict(OF_NUMBERS),
    Count.name: dict(OF_COUNTS),
    Quantile.name: {Pinball.name: Pinball},
    Forecast.name: dict(OF_NUMBERS),
}


def values_of(task_type: TaskType) -> dict[str, Any]:
    """A task type as values for JSON, from which ``task_type_from`` makes it again."""
    values: dict[str, Any] = {"task": task_type.name}
    if task_type.loss is not None:
        values["loss"] = {"name": task_type.loss.name, **asdict(task_type.loss)}
        values["label"] = asdict(task_type.label)
        values["constant"] = list(task_type.constant)
        values["rate"] = task_type.rate
        values["deviation"] = task_type.deviation
        if task_type.is_given:
            values["is_given"] = True
        if task_type.centre:
            values["centre"] = task_type.centre
    return values | task_type.own_values()


def task_type_from(values: Mapping[str, Any], place: Any) -> TaskType:
    """The task type with these ``values_of``.

    Args:
        values: the values, as JSON stores them.
        place: file with which the message begins.

    Raises:
        DataError: the values are damaged.
    """
    try:
        kind = TASK_TYPES[values["task"]]
        if "loss" not in values:
            return kind(**kind.own_fields(values))
        options = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values["loss"].items()
            if name != "name"
        }
        loss = LOSSES[kind.name][values["loss"]["name"]](**options)
        label = LabelScale(float(values["label"]["mean"]), float(values["label"]["scale"]))
        constant = tuple(map(float, values["constant"]))
        return kind(
            loss=loss,  # type: ignore[call-arg]
            label=label,
            constant=constant,
            centre=float(values.get("centre", 0.0)),
            rate=float(values["rate"]),
            deviation=float(values.get("deviation", 1.0)),
            is_given=bool(values.get("is_given", False)),
            **kind.own_fields(values),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{place}: the description of the labels is damaged ({error!r})") from error
