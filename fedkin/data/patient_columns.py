"""The columns of patients in risk sets: a risk set [m, d + 1] has the d columns of a table for each
patient, and the patient's weight, which is 0 for an empty place (``fedkin.data.survival``).

Shapes: n patients, B risk sets, m places in a risk set, d columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.columns import has_patient_rows, patients_split
from fedkin.data.table_transform import TableTransform, transform_of
from fedkin.task_types.survival import Survival


def risk_sets_of_one(
    x: Float[np.ndarray, "n d"], size: int, dtype: Any = np.float32
) -> Float[np.ndarray, "n m e"]:
    """A risk set of one patient for each patient, with the patient in the first place.

    Args:
        x: columns of the patients.
        size: number of places m.
        dtype: type of the risk sets.
    """
    samples = np.zeros((len(x), size, x.shape[1] + 1), dtype)
    samples[:, 0, :-1] = x
    samples[:, 0, -1] = 1
    return samples


def has_patients(samples: Any) -> bool:
    """Whether samples are risk sets: federated data, or a description of samples."""
    return getattr(samples, "task_type", None) == Survival() and len(samples.x.shape) == 3


@dataclass(frozen=True)
class PatientRows:
    """What describes rows of patients, for a model of risk sets (``core.model_spec.Samples``)."""

    name: str
    x: np.ndarray  # [1, d]
    classes: int
    feature_names: tuple[str, ...] | None
    transform: TableTransform | None

    @classmethod
    def of(cls, samples: Any) -> PatientRows:
        """The rows of patients whose risk sets are ``samples``, or described by them."""
        return cls(
            name=samples.name,
            x=np.zeros((1, column_count(samples)), samples.x.dtype),
            classes=samples.classes,
            feature_names=getattr(samples, "feature_names", None),
            transform=transform_of(samples),
        )


def are_patient_rows(x: Any, samples: Any) -> bool:
    """Whether the user's samples are rows of patients, and the samples of a run are risk sets.

    Args:
        x: the user's samples: a DataFrame, or an array.
        samples: the run's samples, or their description.
    """
    return has_patients(samples) and np.ndim(x) != 3


def column_count(samples: Any) -> int:
    """The number of features of a sample with one axis, or of a patient; 0 for other samples.

    Args:
        samples: federated data, or a description of samples.
    """
    if has_patients(samples):
        return samples.x.shape[2] - 1
    return samples.x.shape[1] if samples.x.ndim == 2 else 0


def with_columns(
    x: Float[np.ndarray, "B m e"],
    convert: Callable[[Float[np.ndarray, "p d"]], Shaped[np.ndarray, "p d"]],
) -> Float[np.ndarray, "B m e"]:
    """Risk sets whose patients have other values in their columns. Empty places stay 0.

    Args:
        x: the risk sets.
        convert: makes the columns of patients from their present columns.
    """
    present = x[..., -1] > 0
    columns = convert(x[present][:, :-1])
    found = np.zeros(x.shape, columns.dtype)
    found[present, :-1] = columns
    found[..., -1] = x[..., -1]
    return found


class TrainingTable(NamedTuple):
    """The columns of a table in federated data.

    Attributes:
        x: columns of all samples, or of all patients.
        rows: training samples (or patients) of all clients, as rows of ``x``.
    """

    x: Shaped[np.ndarray, "M d"]
    rows: Int[np.ndarray, "t"]


def training_table(data: Any) -> TrainingTable:
    """The columns of federated data from a table, with a row for each sample or patient.

    Args:
        data: the federated data.
    """
    if not has_patient_rows(data):
        return TrainingTable(data.x, data.train.rows)
    return TrainingTable(data.x[:, 0, :-1], data.part(patients_split("train")).rows)
