"""transform.json of a run's folder: how the columns of a table were renamed and scaled."""

from __future__ import annotations

import json
from pathlib import Path

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import write_atomic
from fedkin.data.table_transform import TableTransform

TRANSFORM = "transform.json"


def write_transform(folder: Path, transform: TableTransform) -> None:
    """Write the file into a run's folder. Raises StorageError if it cannot be written."""
    write_atomic(folder / TRANSFORM, json.dumps(transform.values(), indent=1) + "\n")


def read_transform(path: Path | None) -> TableTransform | None:
    """How the columns of a run's table were renamed and scaled; None if they were not.

    Args:
        path: the run's folder; None for a run without a folder.

    Raises:
        CheckpointError: the file is damaged.
    """
    if path is None or not (path / TRANSFORM).exists():
        return None
    try:
        return TableTransform.of_values(json.loads((path / TRANSFORM).read_text()))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path / TRANSFORM} cannot be read: {error}") from error
