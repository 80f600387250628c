"""Statistics of labels that are numbers, and labels in these statistics (``FederatedData.y``).

Real numbers are centred and scaled by the pooled mean and standard deviation of the training
labels. Counts keep their values; the log of the pooled rate (sum of labels / sum of exposures) is
added to the offset of every sample. So a model that starts at 0 starts at the pooled constant
(with the link softplus, at 0.69 of the pooled rate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Shaped

from fedkin.core.columns import raw_labels
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.series_rows import SeriesRows
from fedkin.measures.moments import above_rounding
from fedkin.task_types.count import Count
from fedkin.task_types.task_type import LabelScale, TaskType


@dataclass(frozen=True)
class RawLabels:
    """The labels of all samples as the user gives them.

    Attributes:
        label: the labels.
        exposure: exposure of each sample; None if all are 1.
        weight: weight of each sample; None if all are 1.
        clients: client of each sample, for messages; None if it is unknown.
        columns: names of the columns of a table by their roles (label, exposure, weight, event),
            for messages.
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


def with_pooled(
    task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"], place: Path | str
) -> TaskType:
    """The task type with the statistics of the training samples: for counts the rate, and for
    numbers mean, standard deviation (1 if all labels are equal) and the scores of the constant
    model.

    Weights do not enter: they say how much a sample counts in the loss, not how often it occurred.

    Args:
        task_type: task type and loss, without statistics.
        raw: labels and exposures of all M samples.
        train: rows of the training samples.
        place: file or name with which messages begin.

    Raises:
        DataError: all counts are 0, so there is no rate.
    """
    of_training = raw.label[train]
    deviation = deviation_of(of_training)
    if isinstance(task_type, Count):
        rate = _rate(raw, train)
        if not rate:
            raise DataError(
                f"{raw.place('label', place)}: all training labels are 0, so there is no rate to "
                "learn; name another label column (label), or add clients with other labels"
            )
        constant = task_type.constant_of(of_training)
        return replace(task_type, rate=rate, deviation=deviation, constant=constant)
    label = LabelScale(float(of_training.mean()), deviation)
    scaled = (raw.label - label.mean) / label.scale
    return replace(task_type, label=label, constant=task_type.constant_of(scaled[train]))


def deviation_of(labels: Float64[np.ndarray, "t"]) -> float:
    """Standard deviation of labels; 1 if all labels are equal, whose mean may differ from them by
    rounding."""
    deviation = above_rounding(np.array([labels.mean()]), np.array([labels.std()]))
    return float(deviation[0]) or 1.0


def _rate(raw: RawLabels, train: Int[np.ndarray, "t"]) -> float:
    """Sum of labels / sum of exposures of the training samples; 0 if all labels are 0."""
    events = float(raw.label[train].sum())
    time = float(len(train) if raw.exposure is None else raw.exposure[train].sum())
    return events / time if events else 0.0


def with_training_constant(
    task_type: TaskType, raw: RawLabels, train: Int[np.ndarray, "t"]
) -> TaskType:
    """A task type with given statistics, whose constant model is the best one of the training
    samples. So R2 and D2 mean the same whatever is given; a wrong mean would flatter all models.

    It stays the same without training samples, or if all their counts are 0.

    Args:
        task_type: task type with given statistics.
        raw: labels and exposures of all M samples.
        train: rows of the training samples of all clients.
    """
    if not len(train):
        return task_type
    if isinstance(task_type, Count):
        rate = _rate(raw, train)
        if not rate:
            return task_type
        # The offsets multiply rates by the given rate already.
        return replace(task_type, constant=(task_type.loss.score_of_rate(rate / task_type.rate),))
    scaled = (raw.label[train] - task_type.label.mean) / task_type.label.scale
    centre = float(scaled.mean())
    constant = list(task_type.constant_of(scaled - centre))
    for output in range(len(task_type.constant_levels) or 1):
        constant[output] += centre
    return replace(task_type, constant=tuple(constant), centre=centre)


def with_given_constant(data: Any) -> Any:
    """Federated data whose constant model follows from given statistics of the labels, if there are
    any; other data as they are."""
    if not data.task_type.is_given:
        return data
    return data.with_task_type(data.task_type.as_given())


def refitted(
    task_type: TaskType, y: Shaped[np.ndarray, "M ..."], train: Int[np.ndarray, "t"], place: str
) -> tuple[TaskType, Shaped[np.ndarray, "M ..."]]:
    """The task type with the statistics of fewer training samples, and ``y`` in these statistics.
    Given statistics do not change, but for the constant model; classes have none.

    Args:
        task_type: task type with the statistics of more training samples.
        y: rows of ``FederatedData.y``, which a server may have to scale yet.
        train: rows of the training samples.
        place: name with which messages begin.

    Raises:
        DataError: as for ``with_pooled``.
    """
    if task_type.loss is None or y.dtype == np.float64:
        return task_type, y
    raw = raw_of_rows(task_type, y)
    if task_type.is_given:
        return with_training_constant(task_type, raw, train), y
    found = with_pooled(task_type, raw, train, place)
    return found, label_columns(found, raw)


def raw_of_rows(task_type: TaskType, y: Float[np.ndarray, "M ..."]) -> RawLabels:
    """Labels, exposures and weights in their own units.

    Args:
        task_type: task type of the rows.
        y: rows of ``FederatedData.y``, or labels that a server scales later.
    """
    columns = raw_labels(task_type, y)
    more = 0 if y.ndim == 1 else y.shape[1] - 1
    return RawLabels(
        label=columns[:, 0],
        exposure=columns[:, 1] if more > 0 else None,
        weight=columns[:, 2] if more > 1 else None,
    )


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
        deviation = numbers.get("deviation", 1.0)
        found = replace(task_type, rate=numbers["rate"], deviation=deviation, is_given=True)
        return found.as_given()
    label = LabelScale(numbers["mean"], numbers["scale"])
    return replace(task_type, label=label, is_given=True).as_given()


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


def raw_columns(raw: RawLabels) -> Float64[np.ndarray, "M q"]:
    """Labels, and exposures and weights if there are any, in float64: what a site keeps until its
    server has sent the statistics."""
    ones = np.ones(len(raw.label))
    if raw.weight is not None:
        exposure = ones if raw.exposure is None else raw.exposure
        return np.stack([raw.label, exposure, raw.weight], axis=1)
    parts = [raw.label] if raw.exposure is None else [raw.label, raw.exposure]
    return np.stack(parts, axis=1)


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
        role: ``label``, ``exposure``, ``weight`` or ``event``.
        place: file or name.
        columns: names of the columns of a table by their roles; None for other data.
    """
    column = (columns or {}).get(role)
    return str(place) if column is None else f"{place}: column {column!r}"
