"""Sums and measures of a model over samples whose labels are numbers, and labels in the statistics
of another task type."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped

from fedkin.measures.concordance import concordance, concordance_within
from fedkin.task_types.task_type import TaskType


def number_sums(
    task_type: TaskType, scores: Float[np.ndarray, "B C"], y: Shaped[np.ndarray, "B ..."]
) -> dict[str, float]:
    """The sums of a task type over samples, by name.

    Args:
        task_type: what the labels are, with statistics.
        scores: outputs of a model.
        y: rows of ``FederatedData.y``.
    """
    own = task_type.sample_scores(np, np.asarray(scores, np.float64), y.astype(np.float64))
    parts = (*own, *task_type.constant_scores(y))
    names = task_type.sums
    return {name: float(np.sum(part)) for name, part in zip(names, parts, strict=True)}


def scores_of_numbers(
    task_type: TaskType, scores: Float[np.ndarray, "B C"], y: Float[np.ndarray, "B ..."]
) -> dict[str, float]:
    """The measures of a model over samples, by name; NaN where undefined.

    Args:
        task_type: what the labels are, with statistics.
        scores: outputs of a model.
        y: rows of ``FederatedData.y``.
    """
    values = task_type.values(number_sums(task_type, scores, y), len(y))
    return {name: float(value) for name, value in values.items()}


def converted_rows(
    y: Float32[np.ndarray, "M ..."], before: TaskType, after: TaskType
) -> Float32[np.ndarray, "M ..."]:
    """Rows of ``FederatedData.y`` with the statistics of another task type.

    Args:
        y: rows with the statistics of ``before``.
        before: task type of the rows.
        after: task type of a run.
    """
    same = (before.label, before.rate) == (after.label, after.rate)
    if same:
        return y
    label = (before.labels_of(y) - after.label.mean) / after.label.scale
    if y.ndim == 1:
        return label.astype(np.float32)
    rows = y.astype(np.float64)
    rows[:, 0] = label
    rows[:, 1] += np.log(after.rate) - np.log(before.rate)
    return rows.astype(np.float32)


def concordance_index(
    risks: Float[np.ndarray, "n"],
    times: Float[np.ndarray, "n"],
    died: Bool[np.ndarray, "n"],
    owners: Shaped[np.ndarray, "n"] | None,
) -> float | None:
    """The C-index within clients of patients with predicted risks; None with fewer than two
    comparable pairs.

    Args:
        risks: predicted risk score of each patient.
        times: time of each patient.
        died: whether the event was observed.
        owners: the client of each patient; None for patients of one client.
    """
    names = np.zeros(len(risks)) if owners is None else owners
    pairs = []
    for name in np.unique(names):
        rows = names == name
        pairs.append(concordance(risks[rows], times[rows], died[rows]))
    return concordance_within(pairs).index
