"""The file in a server's folder with the statistics of labels that it has computed with its sites.
A run that is resumed keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import write_atomic
from fedkin.task_types.task_type import TaskType

LABELS = "labels.json"


def write_statistics(file: Path, task_type: TaskType) -> None:
    """Write the statistics of a task type (``TaskType.statistics``) to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps(task_type.statistics.tolist()))


def read_statistics(file: Path) -> Float64[np.ndarray, "L"]:
    """The statistics in a file. Raises CheckpointError if it is missing or damaged."""
    try:
        return np.array(json.loads(file.read_text()), np.float64)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{file}: the statistics of the labels of this run cannot be read ({error}); restore "
            "the file from a copy, or set another federation.folder for a new run"
        ) from error
