"""Relative paths of a run's data. They are stored so that a later process finds the data, even if
it is started in another folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedkin.config.description import Description

_KEY = "data_from_here"


def place_of_data(config: Description, folder: Path) -> dict[str, str]:
    """The entry of environment.json with the path from the run's folder to the run's data. It is
    empty unless the user gave a relative path. (Absolute paths would reveal user names.)"""
    path = config.data.get("path")
    if not isinstance(path, str) or Path(path).is_absolute() or not Path(path).exists():
        return {}
    try:
        return {_KEY: os.path.relpath(path, folder)}
    except ValueError:  # another drive
        return {}


def located(config: Description, folder: Path | None, environment: dict[str, Any]) -> Description:
    """A run's description whose data path is valid in the current folder of this process. The
    description is returned unchanged if no relative path is stored, or if the data are no longer at
    this path.

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
