"""Labels of other task types than classes: how a table's numbers become ``FederatedData.y``.

Real numbers are centred and scaled by the pooled mean and standard deviation of the training
labels. Counts keep their values; the log of the pooled rate (sum of labels / sum of exposures) is
added to the offset of every sample. So a model that starts at 0 starts at the pooled constant (with
the link softplus, at 0.69 of the pooled rate).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from fedkin.core.columns import raw_labels as column_labels
from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.federated import FederatedData
from fedkin.data.number_columns import check_above_zero, numbers_of
from fedkin.data.series_rows import SeriesRows
from fedkin.task_types.catalogue import LOSSES, TASK_TYPES
from fedkin.task_types.count import Count
from fedkin.task_types.loss import targets_of
from fedkin.task_types.quantile import Quantile
from fedkin.task_types.task_type import LabelScale, TaskType

_log = logging.getLogger("fedkin")
# Keys of the user that say what labels are and how they are scaled.
LABEL_KEYS = ("task", "loss", "quantiles", "loss_options", "label_scale_from")
RAW = "raw"  # labels keep their values until the server has computed their statistics


@dataclass(frozen=True)
class RawLabels:
    """The labels of all samples as the user gives them.

    Attributes:
        label: the labels.
        exposure: exposure of each sample; None if all are 1.
        weight: weight of each sample; None if all are 1.
        clients: client of each sample, for messages; None if it is unknown.
        columns: names of the columns of a table by their roles (label, exposure, weight), for
            messages.
        series: of forecasts, scale and simple forecasts of each sample.
    """

    label: Float64[np.ndarray, "M"]
    exposure: Float64[np.ndarray, "M"] | None = None
    weight: Float64[np.ndarray, "M"] | None = None
    clients: Any = None
    columns: Mapping[str, str] = field(default_factory=dict)
    series: SeriesRows | None = None

    def place(self, role: str, place: Path | str) -> str:
        """The beginning of a message about a label, an exposure or a weight."""
        return place_of(role, place, self.columns)


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
        return task_type, _raw_columns(raw)
    if known is not None:
        found = given_statistics(task_type, known)
        return found, label_columns(found, raw)
    of_training = raw.label[train]
    if not len(of_training) or of_training.min() == of_training.max():
        value = f"{of_training[0]:g}" if len(of_training) else "missing"
        raise DataError(
            f"{raw.place('label', place)}: all training labels are {value}, so there is nothing "
            "to learn; name another label column, such as data.label=score"
        )
    found = with_pooled(task_type, raw, train)
    return found, label_columns(found, raw)


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


def with_pooled(task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"]) -> TaskType:
    """The task type with the statistics of the training samples: for counts the rate, and for
    numbers mean, standard deviation (1 if all labels are equal) and the scores of the constant
    model.

    Args:
        task_type: task type and loss, without statistics.
        raw: labels, exposures and weights of all M samples.
        train: rows of the training samples.
    """
    of_training = raw.label[train]
    deviation = float(of_training.std())
    if isinstance(task_type, Count):
        exposure = np.ones(len(raw.label)) if raw.exposure is None else raw.exposure
        weight = np.ones(len(raw.label)) if raw.weight is None else raw.weight
        events = float((raw.label * weight)[train].sum())
        time = float((exposure * weight)[train].sum())
        constant = task_type.constant_of(of_training)
        return replace(task_type, rate=events / time, deviation=deviation, constant=constant)
    label = LabelScale(float(of_training.mean()), deviation or 1.0)
    scaled = (raw.label - label.mean) / label.scale
    return replace(task_type, label=label, constant=task_type.constant_of(scaled[train]))


def given_statistics(task_type: TaskType, given: Any) -> TaskType:
    """The task type with known statistics of the labels.

    Args:
        task_type: task type and loss, without statistics.
        given: ``{"mean": .., "scale": ..}`` for numbers, and ``{"rate": ..}`` for counts, with an
            optional ``deviation`` (1 if it is missing).

    Raises:
        ConfigError: a number is missing, unknown or not positive.
    """
    counts = isinstance(task_type, Count)
    example = "{rate = 2.5}" if counts else "{mean = 50.0, scale = 12.0}"
    needed = {"rate"} if counts else {"mean", "scale"}
    known = {*needed, "deviation"} if counts else needed
    if not isinstance(given, Mapping) or not needed <= given.keys() <= known:
        raise ConfigError(
            f"label_scale_from must be {example} for task = {task_type.name!r}, got {given!r}"
        )
    numbers = {}
    for name, value in given.items():
        numbers[name] = _given_number(name, value, example)
    if counts:
        return replace(
            task_type,
            rate=numbers["rate"],
            deviation=numbers.get("deviation", 1.0),
            constant=task_type.constant_of(np.zeros(1)),
            given=True,
        )
    outputs = 1 if task_type.loss is None else task_type.loss.outputs
    label = LabelScale(numbers["mean"], numbers["scale"])
    return replace(task_type, label=label, constant=(0.0,) * outputs, given=True)


def _given_number(name: str, value: Any, example: str) -> float:
    """A given statistic of labels. Raises ConfigError unless it is a number, above 0 if it is no
    mean."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and np.isfinite(value) and (value > 0 or name == "mean"):
        return float(value)
    kind = "a number" if name == "mean" else "a number above 0"
    raise ConfigError(
        f"label_scale_from: {name} must be {kind}, such as in {example}; got {value!r}"
    )


def label_columns(task_type: TaskType, raw: RawLabels) -> Float32[np.ndarray, "M ..."]:
    """``FederatedData.y`` of samples, from the statistics of a task type: scaled numbers, or counts
    with their offsets log exposure + log rate; and weights, if there are any."""
    if raw.series is not None:
        return raw.series.rows_with(raw.label, raw.weight)
    if isinstance(task_type, Count):
        exposure = np.ones(len(raw.label)) if raw.exposure is None else raw.exposure
        return _columns(raw.label, np.log(exposure) + np.log(task_type.rate), raw.weight)
    scaled = (raw.label - task_type.label.mean) / task_type.label.scale
    if raw.weight is None:
        return scaled.astype(np.float32)
    return _columns(scaled, np.zeros(len(scaled)), raw.weight)


def _raw_columns(raw: RawLabels) -> Float64[np.ndarray, "M q"]:
    """Labels, and exposures and weights if there are any, in float64: what a site keeps until its
    server has sent the statistics."""
    ones = np.ones(len(raw.label))
    if raw.weight is not None:
        exposure = ones if raw.exposure is None else raw.exposure
        return np.stack([raw.label, exposure, raw.weight], axis=1)
    parts = [raw.label] if raw.exposure is None else [raw.label, raw.exposure]
    return np.stack(parts, axis=1)


def with_label_statistics(
    data: FederatedData, statistics: Float64[np.ndarray, "L"]
) -> FederatedData:
    """Federated data with labels that are scaled by other statistics (``TaskType.statistics``).

    Args:
        data: the data, whose labels may be raw (``RAW``).
        statistics: the statistics that all sites use.
    """
    task_type = data.task_type.with_statistics(statistics)
    columns = column_labels(data, data.y)
    has_exposure = data.y.ndim > 1 and data.y.shape[1] > 1
    has_weight = data.y.ndim > 1 and data.y.shape[1] > 2
    raw = RawLabels(
        label=columns[:, 0],
        exposure=columns[:, 1] if has_exposure else None,
        weight=columns[:, 2] if has_weight else None,
    )
    return replace(data, y=label_columns(task_type, raw), task_type=task_type)


def _columns(
    label: Float[np.ndarray, "M"],
    offset: Float[np.ndarray, "M"],
    weight: Float[np.ndarray, "M"] | None,
) -> Float32[np.ndarray, "M q"]:
    """Label, offset and, if samples are weighted, weight as columns of ``y``."""
    parts = [label, offset] if weight is None else [label, offset, weight]
    return np.stack(parts, axis=1).astype(np.float32)


def place_of(role: str, place: Path | str, columns: Mapping[str, str] | None) -> str:
    """The beginning of a message about a label, an exposure or a weight: the file, and the column
    of a table.

    Args:
        role: ``label``, ``exposure`` or ``weight``.
        place: file or name.
        columns: names of the columns of a table by their roles; None for other data.
    """
    column = (columns or {}).get(role)
    return str(place) if column is None else f"{place}: column {column!r}"


def read_labels(
    labels: Any,
    exposure: Any,
    weight: Any,
    *,
    place: Path | str,
    clients: Any = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[RawLabels, Bool[np.ndarray, "M"]]:
    """Labels, exposures and weights as numbers, and which samples have a label. Samples without
    a label get the first label that is present, and belong to no client.

    Args:
        labels: labels of all samples; NaN, None or an empty cell where a label is missing.
        exposure, weight: exposures and weights of all samples; None if all are 1.
        place: file or name with which messages begin.
        clients: client of each sample, for messages; None if it is unknown.
        columns: names of the columns of a table by their roles; None for other data.

    Raises:
        DataError: a value is text, an exposure or weight is missing, or no sample has a label.
    """
    of_label = place_of("label", place, columns)
    numbers = numbers_of(labels, "label", of_label, clients, allow_missing=True)
    present = ~np.isnan(numbers)
    if not present.any():
        raise DataError(f"{of_label}: no row has a label; name another label column")
    if not present.all():
        _log.warning(
            "%s: left out %d of %d rows, whose label is missing",
            of_label,
            int((~present).sum()),
            len(present),
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


def quantile_bins(labels: Float[np.ndarray, "M"], bins: int = 10) -> Int[np.ndarray, "M"]:
    """The bin of each label, 0 .. bins-1, between pooled quantiles. Equal labels share a bin."""
    edges = np.unique(np.quantile(labels, np.arange(1, bins) / bins))
    return np.searchsorted(edges, labels, side="left")


def raw_labels(task_type: TaskType, y: Float32[np.ndarray, "M ..."]) -> Float64[np.ndarray, "M"]:
    """The labels in their own unit, from ``FederatedData.y``."""
    label = targets_of(y).label
    return label.astype(np.float64) * task_type.label.scale + task_type.label.mean


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
            and forecasts, refuse.

    Raises:
        ConfigError: a name is unknown, or an option does not apply.
    """
    if not isinstance(options or {}, Mapping):
        raise ConfigError(
            f"loss_options must be options by name, such as {{delta = 1.0}}, got {options!r}"
        )
    given = {name: value for name, value in (options or {}).items() if value is not None}
    name = task or _task_with(loss, quantiles)
    if name not in TASK_TYPES:
        raise ConfigError(f"{unknown('task', str(name), TASK_TYPES)}; for example task = 'count'")
    if quantiles is not None:
        if name != Quantile.name:
            raise ConfigError("quantiles applies to task = 'quantile' only; leave it out")
        given["levels"] = _levels(quantiles)
    losses = LOSSES.get(name)
    if losses is None:
        if known is not None:
            raise ConfigError(
                "label_scale_from must be left out for labels that are classes; set task = "
                f"'regression' for labels that are numbers, got {known!r}"
            )
        _refuse(name, given if loss in (None, "log_loss", "cox") else {"loss": loss, **given})
        return None if name == "classification" else TASK_TYPES[name]()
    chosen = loss or next(iter(losses))
    if chosen not in losses:
        raise ConfigError(
            f"{unknown('loss of ' + name, chosen, losses)}; for example loss = "
            f"{next(iter(losses))!r}"
        )
    if known is not None and TASK_TYPES[name].by_time:
        raise ConfigError(
            "label_scale_from does not apply to forecasts, whose labels are scaled by each "
            "client's own past; leave it out"
        )
    made = _made(losses[chosen], chosen, given)
    return TASK_TYPES[name](loss=made)  # type: ignore[call-arg]


def _task_with(loss: str | None, quantiles: Any) -> str:
    """The task type that has a loss; classes for no loss."""
    if quantiles is not None:
        return Quantile.name
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
