"""Scores that a run should reach (``target``, ``until``): their highest value follows from the
measure of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.config.declarations import fields_of
from fedkin.config.key_examples import Form, example, setting
from fedkin.config.loader import Place
from fedkin.config.plan import Scoring
from fedkin.config.registry import Entry
from fedkin.core.errors import ConfigError, unknown
from fedkin.core.storage import user_path
from fedkin.data.label_tasks import task_for, task_type_of
from fedkin.data.natural_sets import NATURAL
from fedkin.task_types.catalogue import TASK_TYPES
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

GOALS = ("target", "until")


def check_goals(scoring: Any, task_type: TaskType, place: Place, form: Form = setting) -> None:
    """Check that a run can reach its scores. A share cannot exceed 1; an error in units of the
    label may have any value.

    Args:
        scoring: the options of scoring.
        task_type: what the labels are.
        place: function that turns a key into its name in messages, such as ``run.until``.
        form: writes an example as the user gives a value.

    Raises:
        ConfigError: a score exceeds the highest value of the measure.
    """
    highest = task_type.measure.highest
    for key in GOALS:
        value = getattr(scoring, key)
        if value is None or value <= highest:
            continue
        declared = fields_of(Scoring)[key]
        right = form(place(key), key, example(Scoring, key, declared))
        raise ConfigError(
            f"{place(key)}: expected a value less than or equal to {highest:g}, got {value:g}; "
            f"for example {right}"
        )


def _asked_type(options: Any, given: Sequence[Any]) -> TaskType:
    """The task type that options of a data set ask for."""
    if "event" in type(options).model_fields:
        return task_for(*given) or CLASSIFICATION
    return task_type_of(*given[1:]) or CLASSIFICATION


def known_task_type(data: Entry) -> TaskType | None:
    """What the labels of a configuration's data are; None if [data] does not say it.

    Args:
        data: the data set and its options.

    Raises:
        ConfigError: the task type is unknown, or an option does not apply to it.
    """
    options = data.options
    if "task" not in type(options).model_fields:
        # The other data sets have classes, or risks, whose measure is a share as well.
        return CLASSIFICATION
    keys = ("event", "task", "loss", "quantiles", "loss_options")
    given = [getattr(options, key, None) for key in keys]
    task = given[1]
    if task is not None and task not in TASK_TYPES:
        raise ConfigError(f"data.task: {unknown('task', str(task), TASK_TYPES)}")
    if any(value is not None for value in given[:4]):
        return _asked_type(options, given)
    natural = NATURAL.get(getattr(options, "set", None) or "")
    if natural is not None and natural.task_type == Survival.name:
        return Survival()
    path = getattr(options, "path", None)
    is_file = path is not None and not Path(user_path(str(path))).is_dir()
    return CLASSIFICATION if is_file else None
