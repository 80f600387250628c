"""The file of a deployed run with the statistics of labels that its server has computed with the
sites. A run that is resumed keeps them, and an export predicts in units of the label by them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import write_atomic

LABELS = "labels.json"


def write_label_statistics(file: Path, statistics: Float64[np.ndarray, "L"]) -> None:
    """Write the statistics of a task type (``TaskType.statistics``) to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps(statistics.tolist()))


def kept_label_statistics(folder: Path | None) -> Float64[np.ndarray, "L"] | None:
    """The statistics that a run has computed with its sites; None if it has computed none.

    Args:
        folder: the run's folder; None for a run without a folder.

    Raises:
        CheckpointError: the file is damaged.
    """
    if folder is None:
        return None
    file = folder / LABELS
    return read_label_statistics(file) if file.exists() else None


def read_label_statistics(file: Path) -> Float64[np.ndarray, "L"]:
    """The statistics in a file. Raises CheckpointError if it is missing or damaged."""
    try:
        return np.array(json.loads(file.read_text()), np.float64)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{file}: the statistics of the labels of this run cannot be read ({error}); restore "
            "the file from a copy, or set another federation.folder for a new run"
        ) from error
