"""Checks of the scores that a run should reach, ``target`` and ``until``. Their highest value
depends on the measure, which follows from what the labels are.
"""

from __future__ import annotations

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
    """Check that a run can reach its scores: a share is at most 1, an error may have any value.

    Args:
        scoring: the section with the keys ``target`` and ``until``.
        task_type: what the labels are.
        place: function that turns a key into its name in messages, such as ``run.until``.
        form: writes an example in the way in which the user gives values.

    Raises:
        ConfigError: a score exceeds the highest value of the measure.
    """
    highest = task_type.measure.highest
    for key in GOALS:
        score = getattr(scoring, key)
        if score is None or score <= highest:
            continue
        value = example(Scoring, key, fields_of(Scoring)[key])
        raise ConfigError(
            f"{place(key)}: expected a value less than or equal to {highest:g}, got {score:g}; "
            f"for example {form(place(key), key, value)}"
        )


def known_task_type(data: Entry) -> TaskType | None:
    """What the labels of a configuration's data are; None if only the data say it.

    Args:
        data: the data set and its options.

    Raises:
        ConfigError: the task type is unknown, or an option does not apply to it.
    """
    options: Any = data.options
    if "task" not in type(options).model_fields:
        # The other data sets have classes, or risks, whose measure is a share as well.
        return CLASSIFICATION
    if options.task is not None and options.task not in TASK_TYPES:
        raise ConfigError(f"data.task: {unknown('task', str(options.task), TASK_TYPES)}")
    keys = ("event", "task", "loss", "quantiles")
    if any(getattr(options, key, None) is not None for key in keys):
        return _type_of_options(options)
    natural = NATURAL.get(getattr(options, "set", None) or "")
    if natural is not None and natural.task_type == Survival.name:
        return Survival()
    path = getattr(options, "path", None)
    # A folder may hold packed data, which say themselves what their labels are.
    is_file = path is not None and not Path(user_path(str(path))).is_dir()
    return CLASSIFICATION if is_file else None


def _type_of_options(options: Any) -> TaskType:
    """The task type that the options of a data set say.

    Args:
        options: the options, of which ``event``, ``task``, ``loss`` or ``quantiles`` is given.
    """
    loss = getattr(options, "loss", None)
    quantiles = getattr(options, "quantiles", None)
    loss_options = getattr(options, "loss_options", None)
    if hasattr(options, "event"):
        found = task_for(
            options.event, options.task, loss=loss, quantiles=quantiles, options=loss_options
        )
    else:
        found = task_type_of(options.task, loss=loss, quantiles=quantiles, options=loss_options)
    return found or CLASSIFICATION
