"""What labels are, in words that sites, servers and peers compare before they work together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.survival import BRESLOW, Survival
from fedkin.task_types.task_type import TaskType


def label_words(task_type: TaskType, given: Mapping[str, float] | None = None) -> str:
    """Task type, loss with its options, and how labels are scaled; empty for classes.

    Args:
        task_type: the task type.
        given: the numbers by which all sites scale labels; None if the server computes them.
    """
    if isinstance(task_type, Survival) and task_type.ties != BRESLOW:
        return f"{task_type.name}, ties {task_type.ties}"
    if task_type.loss is None:
        return "" if task_type.name == CLASSIFICATION.name else task_type.name
    options = ", ".join(f"{name} {value}" for name, value in asdict(task_type.loss).items())
    loss = f"{task_type.loss.name} ({options})" if options else task_type.loss.name
    if isinstance(task_type, Forecast):
        return f"{task_type.name}, {loss}, {_series_words(task_type)}"
    numbers = ", ".join(f"{name} {value:.9g}" for name, value in sorted((given or {}).items()))
    return f"{task_type.name}, {loss}, {numbers or 'scaled by the server'}"


def scaled_label_words(task_type: TaskType) -> str:
    """The same words for labels that are scaled already: with the statistics that scale them."""
    if task_type.loss is None or isinstance(task_type, Forecast):
        return label_words(task_type)
    if task_type.scales_by_rate:
        return label_words(task_type, {"rate": task_type.rate})
    return label_words(task_type, {"mean": task_type.label.mean, "scale": task_type.label.scale})


def _series_words(task_type: Forecast) -> str:
    """The steps, the lags, the split and the scale of forecasts."""
    series = task_type.series
    if series is None:
        return "other data than a table"
    made = [f"{series.label}_lag{lag}" for lag in series.lags]
    lags = ", ".join(sorted({*made, *series.given_lags}))
    scale = "its own past" if task_type.scales_by_client else _pooled_words(task_type)
    return (
        f"steps of {series.every} {series.unit}, season {series.season}, lags {lags}, tested from "
        f"{task_type.test_from or 'an unknown date'}, each series scaled by {scale}"
    )


def _pooled_words(task_type: Forecast) -> str:
    """The scale of the labels of all clients."""
    return f"mean {task_type.label.mean:.9g}, scale {task_type.label.scale:.9g}"
