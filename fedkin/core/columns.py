"""Facts about the columns and labels of all clients' tables, as servers and sites exchange them.

Shapes: d columns, s samples, L statistics of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Real, Shaped

PATIENTS = "patients/"  # beginning of the name of a split that has a sample for each patient


@dataclass(frozen=True)
class ColumnSummary:
    """A column over the training samples of all clients that replied.

    Attributes:
        name: name of the column.
        count: number of values.
        mean: mean of the values.
        deviation: standard deviation (divided by the count); 0 for a constant column.
        quartiles: the lower quartile, the median and the upper quartile; None if they were not
            asked for.
    """

    name: str
    count: int
    mean: float
    deviation: float
    quartiles: tuple[float, float, float] | None = None


def patients_split(split: str) -> str:
    """The name of the split with a sample for each patient of a split (survival data)."""
    return f"{PATIENTS}{split}"


def has_patient_rows(data: Any) -> bool:
    """Whether samples are risk sets, and each patient has a sample, too.

    Args:
        data: the data (``FederatedData``).
    """
    return getattr(data, "patients", None) is not None and data.x.ndim == 3


def columns_of_split(data: Any, client: int, split: str) -> Shaped[np.ndarray, "s ..."]:
    """The features of a client's samples of a split; of risk sets, those of its patients.

    Args:
        data: the data (``FederatedData``).
        client: position of the client.
        split: name of the split.
    """
    if not has_patient_rows(data):
        return data.x[data.part(split)[client]]
    # A patient's own sample is a risk set of one, whose last feature is a weight.
    return data.x[data.part(patients_split(split))[client], 0, :-1]


def units_of_split(data: Any, client: int, split: str) -> Int[np.ndarray, "s"] | None:
    """The unit of each of a client's samples of a split; None if each sample is a unit.

    Args:
        data: the data (``FederatedData``).
        client: position of the client.
        split: name of the split.
    """
    unit = getattr(data, "unit", None)
    return None if unit is None else unit[data.part(split)[client]]


def raw_values(data: Any, x: Shaped[np.ndarray, "s ..."]) -> Float64[np.ndarray, "s ..."]:
    """The values of samples before the columns of a table were scaled.

    Args:
        data: the data (``FederatedData``) that the samples are from.
        x: the samples, as in the data.
    """
    transform = getattr(data, "transform", None)
    return np.asarray(x if transform is None else transform.undo(x), np.float64)


def raw_labels(task_type: Any, y: Real[np.ndarray, "s ..."]) -> Float64[np.ndarray, "s 3"]:
    """The labels of samples in their own unit, with the exposures and the weights of the samples.

    Args:
        task_type: what the labels are (``TaskType``).
        y: the samples' rows of ``FederatedData.y``.
    """
    rows = np.asarray(y, np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    ones = np.ones(len(rows))
    weight = rows[:, 2] if rows.shape[1] > 2 else ones
    if y.dtype == np.float64:  # labels that the server has not scaled yet
        exposure = rows[:, 1] if rows.shape[1] > 1 else ones
        return np.stack([rows[:, 0], exposure, weight], axis=1)
    label = task_type.labels_of(rows)
    exposure = np.exp(rows[:, 1]) / task_type.rate if rows.shape[1] > 1 else ones
    return np.stack([label, exposure, weight], axis=1)


class CommonScaling(NamedTuple):
    """How all sites scale the columns of their tables, ``(x - mean) / scale``, and their labels.

    Attributes:
        mean: the value of each column that becomes 0; None if the server does not scale columns.
        scale: the difference in each column that becomes 1; None with ``mean``.
        labels: statistics of labels that are numbers (``TaskType.statistics``); None for classes.
    """

    mean: Float64[np.ndarray, "d"] | None = None
    scale: Float64[np.ndarray, "d"] | None = None
    labels: Float64[np.ndarray, "L"] | None = None
