"""Paths of a run's data: a relative path is stored so that the data are found from any folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedkin.config.description import Description

_KEY = "data_from_here"


def place_of_data(config: Description, folder: Path) -> dict[str, str]:
    """The entry of environment.json for data with a relative path: their path from the run's
    folder. It is empty for other data. A relative path contains no user name."""
    path = config.data.get("path")
    if not isinstance(path, str) or Path(path).is_absolute() or not Path(path).exists():
        return {}
    try:
        return {_KEY: os.path.relpath(path, folder)}
    except ValueError:  # another drive
        return {}


def located(config: Description, folder: Path | None, environment: dict[str, Any]) -> Description:
    """A run's description with its data path relative to the present folder.

    Args:
        config: the description.
        folder: the run's folder.
        environment: contents of the run's environment.json.
    """
    relative = environment.get(_KEY)
    if folder is None or not isinstance(relative, str) or not (folder / relative).exists():
        return config
    return config.with_sections(
        {"data": {**config.data, "path": os.path.normpath(folder / relative)}}
    )
