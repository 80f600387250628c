"""Labels of other task types than classes: how a table's numbers become ``FederatedData.y``.

Real numbers are centred and scaled by the pooled mean and standard deviation of the training
labels. Counts keep their values; the log of the pooled rate (sum of labels / sum of exposures) is
added to the offset of every sample. So a model that starts at 0 starts at the pooled constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64, Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.task_types.catalogue import LOSSES, TASK_TYPES
from fedkin.task_types.count import Count
from fedkin.task_types.quantile import Quantile
from fedkin.task_types.task_type import LabelScale, TaskType


@dataclass(frozen=True)
class RawLabels:
    """The labels of all samples as the user gives them.

    Attributes:
        label: the labels.
        exposure: exposure of each sample; None if all are 1.
        weight: weight of each sample; None if all are 1.
    """

    label: Float64[np.ndarray, "M"]
    exposure: Float64[np.ndarray, "M"] | None = None
    weight: Float64[np.ndarray, "M"] | None = None


def fitted(
    task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"], place: Path | str
) -> tuple[TaskType, Float32[np.ndarray, "M ..."]]:
    """The task type with the statistics of the training labels, and ``y`` of all samples.

    Args:
        task_type: task type and loss, without statistics.
        raw: labels, exposures and weights of all M samples.
        train: rows of the training samples of all clients.
        place: file or name with which messages begin.

    Raises:
        DataError: a label, an exposure or a weight is impossible, or all training labels are equal.
    """
    task_type.check_labels(raw.label, str(place))
    _check_positive(raw.exposure, "exposure", place)
    _check_positive(raw.weight, "weight", place)
    of_training = raw.label[train]
    if not len(of_training) or of_training.min() == of_training.max():
        value = f"{of_training[0]:g}" if len(of_training) else "missing"
        raise DataError(
            f"{place}: all training labels are {value}, so there is nothing to learn; name another "
            "label column"
        )
    if isinstance(task_type, Count):
        return _of_counts(task_type, raw, train)
    return _of_numbers(task_type, raw, train)


def _of_counts(
    task_type: Count, raw: RawLabels, train: Int[np.ndarray, "t"]
) -> tuple[TaskType, Float32[np.ndarray, "M q"]]:
    """Counts with their offsets: log exposure + log pooled rate."""
    exposure = np.ones(len(raw.label)) if raw.exposure is None else raw.exposure
    weight = np.ones(len(raw.label)) if raw.weight is None else raw.weight
    events = float((raw.label * weight)[train].sum())
    time = float((exposure * weight)[train].sum())
    rate = events / time
    offset = np.log(exposure) + np.log(rate)
    deviation = float(raw.label[train].std())
    found = replace(task_type, rate=rate, deviation=deviation)
    return found, _columns(raw.label, offset, raw.weight)


def _of_numbers(
    task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"]
) -> tuple[TaskType, Float32[np.ndarray, "M ..."]]:
    """Real numbers, centred and scaled, with the scores of the constant model."""
    if raw.exposure is not None:
        raise ConfigError(
            "exposure applies to counts only; set task = 'count', or leave exposure out"
        )
    of_training = raw.label[train]
    label = LabelScale(float(of_training.mean()), float(of_training.std()))
    scaled = (raw.label - label.mean) / label.scale
    constant = task_type.constant_of(scaled[train])
    found = replace(task_type, label=label, constant=constant)
    if raw.weight is None:
        return found, scaled.astype(np.float32)
    return found, _columns(scaled, np.zeros(len(scaled)), raw.weight)


def _columns(
    label: Float[np.ndarray, "M"],
    offset: Float[np.ndarray, "M"],
    weight: Float[np.ndarray, "M"] | None,
) -> Float32[np.ndarray, "M q"]:
    """Label, offset and, if samples are weighted, weight as columns of ``y``."""
    parts = [label, offset] if weight is None else [label, offset, weight]
    return np.stack(parts, axis=1).astype(np.float32)


def numbers_of(values: Any, what: str, place: Path | str) -> Float64[np.ndarray, "M"]:
    """Labels, exposures or weights as numbers.

    Args:
        values: an array, a column of a table, or a list.
        what: what the values are, for messages.
        place: file or name with which messages begin.

    Raises:
        DataError: a value is text or missing; the message names the row.
    """
    import pandas as pd

    column = pd.Series(np.asarray(values).ravel()) if not hasattr(values, "dtype") else values
    column = pd.Series(np.asarray(column))
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    missing = column.isna().to_numpy()
    text = np.isnan(numbers) & ~missing
    if text.any():
        row = int(np.argmax(text))
        raise DataError(
            f"{place}: the {what} in row {row} is {column.iloc[row]!r}, which is not a number "
            f"({int(text.sum())} such rows); name a column of numbers, or leave out task and loss "
            "to learn classes"
        )
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{place}: the {what} in row {row} is missing ({int(missing.sum())} such rows); leave "
            "out these rows"
        )
    return numbers


def optional_numbers(values: Any, what: str, place: Path | str) -> Float64[np.ndarray, "M"] | None:
    """``numbers_of`` the values; None for None."""
    return None if values is None else numbers_of(values, what, place)


def quantile_bins(labels: Float[np.ndarray, "M"], bins: int = 10) -> Int[np.ndarray, "M"]:
    """The bin of each label, 0 .. bins-1, between pooled quantiles. Equal labels share a bin."""
    edges = np.unique(np.quantile(labels, np.arange(1, bins) / bins))
    return np.searchsorted(edges, labels, side="left")


def raw_labels(task_type: TaskType, y: Float32[np.ndarray, "M ..."]) -> Float64[np.ndarray, "M"]:
    """The labels in their own unit, from ``FederatedData.y``."""
    label = y if y.ndim == 1 else y[:, 0]
    return label.astype(np.float64) * task_type.label.scale + task_type.label.mean


def _check_positive(values: Any, what: str, place: Path | str) -> None:
    """Raise DataError for an exposure or a weight that is not above 0."""
    if values is None:
        return
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{place}: the {what} in row {row} is {values[row]:g} ({int(wrong.sum())} such rows); "
            f"every {what} must be above 0; leave out these rows, or correct them"
        )


def task_type_of(
    task: str | None,
    loss: str | None = None,
    quantiles: Any = None,
    options: Mapping[str, Any] | None = None,
) -> TaskType | None:
    """The task type that the user asks for; None for classes.

    Args:
        task: name of a task type; None for the type that has the loss, or classes.
        loss: name of a loss of the task type; None for its default.
        quantiles: levels of the task type ``quantile``.
        options: options of the loss, by name (``delta``, ``power``, ``overdispersion``, ``link``).

    Raises:
        ConfigError: a name is unknown, or an option does not apply.
    """
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
        _refuse(name, given if loss in (None, "log_loss", "cox") else {"loss": loss, **given})
        return None if name == "classification" else TASK_TYPES[name]()
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
    return next((name for name, losses in LOSSES.items() if loss in losses), "classification")


def _levels(quantiles: Any) -> tuple[float, ...]:
    """The levels as a tuple of numbers."""
    levels = (quantiles,) if isinstance(quantiles, (int, float)) else quantiles
    try:
        return tuple(float(level) for level in levels)
    except (TypeError, ValueError):
        raise ConfigError(
            f"quantiles must be numbers between 0 and 1, such as [0.1, 0.5, 0.9]; got {quantiles!r}"
        ) from None


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
