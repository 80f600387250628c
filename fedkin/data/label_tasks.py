"""Labels of other task types than classes: how a table's numbers become ``FederatedData.y``, and
the task type that the user asks for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.federated import FederatedData
from fedkin.data.label_statistics import (
    RawLabels,
    given_statistics,
    label_columns,
    place_of,
    raw_columns,
    raw_of_rows,
    with_pooled,
    with_training_constant,
)
from fedkin.data.number_columns import check_above_zero, numbers_of
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.task_types.catalogue import LOSSES, TASK_TYPES
from fedkin.task_types.count import Count
from fedkin.task_types.quantile import Quantile
from fedkin.task_types.survival import COX, Survival
from fedkin.task_types.task_type import TaskType

_log = logging.getLogger("fedkin")
# Keys of the user that say what labels are and how they are scaled.
LABEL_KEYS = ("task", "loss", "quantiles", "loss_options", "label_scale_from")
RAW = "raw"  # labels keep their values until the server has computed their statistics


def fitted(
    task_type: TaskType,
    raw: RawLabels,
    train: Int[np.ndarray, "t"],
    place: Path | str,
    known: Any = None,
) -> tuple[TaskType, Float[np.ndarray, "M ..."]]:
    """The task type with the statistics of the training labels, and ``y`` of all samples.

    Args:
        task_type: task type and loss, without statistics.
        raw: labels, exposures and weights of all M samples.
        train: rows of the training samples of all clients.
        place: file or name with which messages begin.
        known: known statistics (``given_statistics``), or ``RAW`` for labels that a server scales
            later; None for those of the training labels.

    Raises:
        DataError: a label, an exposure or a weight is impossible, or all training labels are equal.
        ConfigError: exposure is given for labels other than counts, or ``known`` is impossible.
    """
    task_type.check_labels(raw.label, raw.place("label", place), raw.clients)
    _check_exposure_and_weight(raw, place)
    if raw.exposure is not None and not isinstance(task_type, Count):
        raise ConfigError(
            "exposure applies to counts only; set task = 'count', or leave exposure out"
        )
    if known == RAW:
        return task_type, raw_columns(raw)
    if known is not None:
        found = with_training_constant(given_statistics(task_type, known), raw, train)
        return found, label_columns(found, raw)
    if not _vary(task_type, raw, train):
        value = f"{raw.label[train][0]:g}" if len(train) else "missing"
        raise DataError(
            f"{raw.place('label', place)}: all training labels are {value}, so there is nothing "
            "to learn; name another label column (label), or add clients with other labels"
        )
    found = with_pooled(task_type, raw, train, place)
    return found, label_columns(found, raw)


def _vary(task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"]) -> bool:
    """Whether training labels differ; equal counts above 0 may differ in their exposures."""
    labels = raw.label[train]
    if not len(labels):
        return False
    if isinstance(task_type, Count) and raw.exposure is not None and labels[0] > 0:
        exposure = raw.exposure[train]
        if exposure.min() != exposure.max():
            return True
    return bool(labels.min() != labels.max())


def given(
    task_type: TaskType, raw: RawLabels, place: Path | str
) -> tuple[TaskType, Float32[np.ndarray, "M ..."]]:
    """A task type whose statistics are known, such as those of a run, and ``y`` of all samples.

    Args:
        task_type: task type, loss and statistics.
        raw: labels, exposures and weights of all M samples.
        place: file or name with which messages begin.

    Raises:
        DataError: a label, an exposure or a weight is impossible.
    """
    task_type.check_labels(raw.label, raw.place("label", place), raw.clients)
    _check_exposure_and_weight(raw, place)
    return task_type, label_columns(task_type, raw)


def _check_exposure_and_weight(raw: RawLabels, place: Path | str) -> None:
    """Raise DataError for an exposure or a weight that is not above 0."""
    for role, values in (("exposure", raw.exposure), ("weight", raw.weight)):
        if values is not None:
            check_above_zero(values, role, raw.place(role, place), raw.clients)


def with_label_statistics(
    data: FederatedData, statistics: Float64[np.ndarray, "L"]
) -> FederatedData:
    """Federated data with labels that are scaled by other statistics (``TaskType.statistics``).

    Args:
        data: the data, whose labels may be raw (``RAW``).
        statistics: the statistics that all sites use.
    """
    task_type = data.task_type.with_statistics(statistics)
    raw = raw_of_rows(data.task_type, data.y)
    return replace(data, y=label_columns(task_type, raw), task_type=task_type)


def read_labels(
    labels: Any,
    exposure: Any,
    weight: Any,
    *,
    place: Path | str,
    clients: Any = None,
    columns: Mapping[str, str] | None = None,
    what: str = "label",
) -> tuple[RawLabels, Bool[np.ndarray, "M"]]:
    """Labels, exposures and weights as numbers, and which samples have a label. Samples without
    a label get the first label that is present, and belong to no client.

    Args:
        labels: labels of all samples; NaN, None or an empty cell where a label is missing.
        exposure, weight: exposures and weights of all samples; None if all are 1.
        place: file or name with which messages begin.
        clients: client of each sample, for messages; None if it is unknown.
        columns: names of the columns of a table by their roles; None for other data.
        what: what the labels are, for messages.

    Raises:
        DataError: a value is text, an exposure or weight is missing, or no sample has a label.
    """
    of_label = place_of("label", place, columns)
    numbers = numbers_of(labels, what, of_label, clients, allow_missing=True)
    present = ~np.isnan(numbers)
    if not present.any():
        raise DataError(f"{of_label}: no row has a {what}; name another label column")
    if not present.all():
        _log.warning(
            "%s: left out %d of %d rows, whose %s is missing",
            of_label,
            int((~present).sum()),
            len(present),
            what,
        )
        numbers = np.where(present, numbers, numbers[present][0])
    others = {}
    for role, values in (("exposure", exposure), ("weight", weight)):
        place_of_role = place_of(role, place, columns)
        others[role] = None if values is None else numbers_of(values, role, place_of_role, clients)
    raw = RawLabels(
        label=numbers,
        exposure=others["exposure"],
        weight=others["weight"],
        clients=clients,
        columns=columns or {},
    )
    return raw, present


def task_type_of(
    task: str | None,
    loss: str | None = None,
    quantiles: Any = None,
    options: Any = None,
    known: Any = None,
) -> TaskType | None:
    """The task type that the user asks for, without statistics; None for classes.

    Args:
        task: name of a task type; None for the type that has the loss, or classes.
        loss: name of a loss of the task type; None for its default.
        quantiles: levels of the task type ``quantile``.
        options: options of the loss, by name (``delta``, ``power``, ``overdispersion``, ``link``).
        known: given statistics of the labels (``label_scale_from``), which labels that are classes,
            forecasts and survival times refuse.

    Raises:
        ConfigError: a name is unknown, an option does not apply, or statistics are given for labels
            that have none.
    """
    task_type = _asked_type(task, loss, quantiles, options)
    if known is not None and task_type is None:
        raise ConfigError(
            "label_scale_from must be left out for labels that are classes; set task = "
            f"'regression' for labels that are numbers, got {known!r}"
        )
    if known is not None and isinstance(task_type, Survival):
        raise ConfigError(
            "label_scale_from does not apply to task = 'survival', since Cox's loss depends on the "
            "order of times only; leave it out"
        )
    if known is not None and task_type is not None and task_type.by_time:
        raise ConfigError(
            "label_scale_from does not apply to forecasts, whose labels are scaled by each "
            "client's own past; leave it out"
        )
    return task_type


def task_for(
    event: Any,
    task: str | None,
    loss: str | None = None,
    quantiles: Any = None,
    options: Any = None,
    known: Any = None,
) -> TaskType | None:
    """The task type that the user asks for, of labels that are times if there are events.

    Args:
        event: column or array of the events; None without one.
        task, loss, quantiles, options, known: as in ``task_type_of``. With ``event`` and neither a
            task nor a loss, the task is ``survival``.

    Raises:
        ConfigError: as in ``task_type_of``, or only one of event and ``survival`` is given.
    """
    if event is not None and task is None and loss is None and quantiles is None:
        task = Survival.name
    found = task_type_of(task, loss, quantiles, options, known=known)
    is_survival = isinstance(found, Survival)
    if event is not None and not is_survival:
        name = "classification" if found is None else found.name
        raise ConfigError(
            f"event applies to task = 'survival' only, got task = {name!r}; leave event out, or "
            "set task = 'survival', with the column of the times as label"
        )
    if event is None and is_survival:
        raise ConfigError(
            "task = 'survival' needs the time and the event of each patient; name both columns: "
            "label = 'time', event = 'status' (1: the event was observed, 0: it was not); for "
            "arrays use fk.data.from_patients(x, times, died, clients=clients)"
        )
    return found


def refuse_class_options(task_type: TaskType | None, classes: Any, label_names: Any) -> None:
    """Raise ConfigError for options of classes if labels are no classes.

    Args:
        task_type: what the labels are; None for classes.
        classes: the option ``classes``; None if not given.
        label_names: the option ``label_names``; None if not given.
    """
    if task_type is None:
        return
    for name, value in (("classes", classes), ("label_names", label_names)):
        if value is not None:
            raise ConfigError(
                f"{name} = {value} applies to labels that are classes, but the labels are of task "
                f"= {task_type.name!r}; leave it out"
            )


def _asked_type(
    task: str | None, loss: str | None, quantiles: Any, options: Any
) -> TaskType | None:
    """The task type that the user asks for; arguments and errors are those of ``task_type_of``."""
    if not isinstance(options or {}, Mapping):
        raise ConfigError(
            f"loss_options must be options by name, such as {{delta = 1.0}}, got {options!r}"
        )
    given = {name: value for name, value in (options or {}).items() if value is not None}
    name = task or _task_with(loss, quantiles)
    if name not in TASK_TYPES:
        raise ConfigError(unknown("task", str(name), TASK_TYPES))
    if quantiles is not None:
        if name != Quantile.name:
            raise ConfigError("quantiles applies to task = 'quantile' only; leave it out")
        given["levels"] = _levels(quantiles)
    if name == Survival.name:
        if loss not in (None, COX):
            raise ConfigError(f"{unknown('loss of ' + name, loss, [COX])}; leave loss out")
        risk_sets = RiskSetOptions.of(given)
        return Survival(ties=risk_sets.ties, draws=risk_sets.draws)
    losses = LOSSES.get(name)
    if losses is None:
        _refuse(name, given if loss in (None, "log_loss") else {"loss": loss, **given})
        return None
    chosen = loss or next(iter(losses))
    if chosen not in losses:
        raise ConfigError(
            f"{unknown('loss of ' + name, chosen, losses)}; for example loss = "
            f"{next(iter(losses))!r}"
        )
    made = _made(losses[chosen], chosen, given)
    return TASK_TYPES[name](loss=made)  # type: ignore[call-arg]


def _task_with(loss: str | None, quantiles: Any) -> str:
    """The task type that has a loss; classes for no loss."""
    if quantiles is not None:
        return Quantile.name
    if loss == COX:
        return Survival.name
    return next((name for name, losses in LOSSES.items() if loss in losses), "classification")


def _levels(quantiles: Any) -> tuple[float, ...]:
    """The levels as a tuple of numbers."""
    wrong = ConfigError(
        f"quantiles must be numbers between 0 and 1, such as [0.1, 0.5, 0.9], got {quantiles!r}"
    )
    levels = (quantiles,) if isinstance(quantiles, (int, float)) else quantiles
    try:
        numbers = tuple(float(level) for level in levels)
    except (TypeError, ValueError):
        raise wrong from None
    if isinstance(quantiles, (int, float)) and not 0 < quantiles < 1:
        raise wrong
    return numbers


def _made(loss: Any, name: str, given: Mapping[str, Any]) -> Any:
    """A loss with its options."""
    own = [field.name for field in fields(loss)]
    for option in given:
        if option not in own:
            has = f"it has {', '.join(own)}" if own else "it has no options"
            raise ConfigError(f"{option} does not apply to loss = {name!r}; {has}")
    return loss(**given)


def _refuse(task: str, given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of a task type that has none."""
    for name, value in given.items():
        raise ConfigError(f"{name} = {value!r} does not apply to task = {task!r}; leave it out")
