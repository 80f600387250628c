"""environment.json of a run's folder: versions of libraries, platform and devices, and the relative
paths of the run's data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkin.config.description import Description
from fedkin.core.storage import write_atomic
from fedkin.run.folder.data_path import place_of_data
from fedkin.run.folder.fingerprint import environment

ENVIRONMENT = "environment.json"


def environment_of(description: Description, folder: Path) -> dict[str, Any]:
    """The contents of the file: the environment of this process, and the paths from the run's
    folder to its data and its backbone, if the description names these by relative paths.

    Args:
        description: the run's description.
        folder: the run's folder.
    """
    return {**environment(description), **place_of_data(description, folder)}


def write_environment(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write the file into a run's folder. Raises StorageError if it cannot be written."""
    write_atomic(folder / ENVIRONMENT, json.dumps(contents, indent=2) + "\n")


def read_environment(folder: Path | None) -> dict[str, Any]:
    """The contents of the file in a run's folder.

    Args:
        folder: the folder; None for a run without a folder.

    Returns:
        An empty dictionary if the file is missing or cannot be read.
    """
    try:
        return {} if folder is None else dict(json.loads((folder / ENVIRONMENT).read_text()))
    except (OSError, ValueError, TypeError):
        return {}
