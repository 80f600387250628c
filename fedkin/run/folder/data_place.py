"""Where the data of a run are that have a relative path: found again from any folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedkin.config.description import Description

_KEY = "data_from_here"


def place_of_data(config: Description, folder: Path) -> dict[str, str]:
    """What environment.json says of data with a relative path: the same from the run's folder,
    which names no user of the machine; nothing where there are none here."""
    path = config.data.get("path")
    if not isinstance(path, str) or Path(path).is_absolute() or not Path(path).exists():
        return {}
    try:
        return {_KEY: os.path.relpath(path, folder)}
    except ValueError:  # another drive
        return {}


def located(config: Description, folder: Path | None, environment: dict[str, Any]) -> Description:
    """A run's description with the path of its data as it is found from the present folder.

    Args:
        config: the description.
        folder: of the run.
        environment: what its environment.json says.
    """
    relative = environment.get(_KEY)
    if folder is None or not isinstance(relative, str) or not (folder / relative).exists():
        return config
    return config.with_sections(
        {"data": {**config.data, "path": os.path.normpath(folder / relative)}}
    )
