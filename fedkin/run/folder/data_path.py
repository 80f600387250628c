"""Relative paths of a run's data and of its backbone. They are stored so that a later process finds
them, even if it is started in another folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedkin.config.description import Description
from fedkin.core.errors import ConfigError

# Entries of environment.json, and the section and key of the path in the description.
_PATHS = {
    "data_from_here": ("data", "path"),
    "tokenizer_from_here": ("data", "tokenizer"),
    "features_from_here": ("data", "features_file"),
    "backbone_from_here": ("model", "backbone"),
}


def place_of_data(config: Description, folder: Path) -> dict[str, str]:
    """The entries of environment.json with the paths from the run's folder to the run's data and to
    its backbone, for each that the user gave by a relative path. (Absolute paths would reveal user
    names.)"""
    places = {}
    for entry, (section, key) in _PATHS.items():
        path = config.section(section).get(key)
        if not isinstance(path, str) or Path(path).is_absolute() or not Path(path).exists():
            continue
        try:
            places[entry] = os.path.relpath(path, folder)
        except ValueError:  # another drive
            continue
    return places


def moved_places(environment: dict[str, Any], original: Path, folder: Path) -> dict[str, str]:
    """The entries of environment.json with the paths to the same files from another folder.

    Args:
        environment: contents of the run's environment.json.
        original: the folder from which its paths start.
        folder: the folder from which the new paths start.
    """
    places = {}
    for entry in _PATHS:
        relative = environment.get(entry)
        if isinstance(relative, str):
            places[entry] = os.path.relpath(original / relative, folder)
    return places


def located(config: Description, folder: Path | None, environment: dict[str, Any]) -> Description:
    """A run's description whose paths are valid in the current folder of this process. A path is
    unchanged if no relative path is stored, or if nothing is at this place any more.

    Args:
        config: the description.
        folder: the run's folder.
        environment: contents of the run's environment.json.
    """
    for entry, (section, key) in _PATHS.items():
        relative = environment.get(entry)
        if folder is None or not isinstance(relative, str) or not (folder / relative).exists():
            continue
        path = os.path.normpath(folder / relative)
        config = config.with_sections({section: {**config.section(section), key: path}})
    return config


def with_backbone(config: Description, backbone: str | Path | None) -> Description:
    """A run's description with the folder of its backbone.

    Args:
        config: the description.
        backbone: the folder; None: the one in the description.

    Raises:
        ConfigError: the run has no backbone of a folder, or the folder is not there.
    """
    own = config.model.get("backbone")
    if not isinstance(own, str):
        if backbone is None:
            return config
        cure = "leave it out"
        if config.from_python:
            cure = "the run was started from Python, so give the model: model=fk.lora(data, FOLDER)"
        raise ConfigError(
            f"backbone = {str(backbone)!r} does not apply to the model {config.model_name!r} of "
            f"the run; {cure}"
        )
    path = Path(own if backbone is None else backbone)
    if not path.is_dir():
        raise ConfigError(
            f"the folder of the backbone, {path}, does not exist; give its place: "
            "Run.load(path, backbone=...) or --backbone FOLDER"
        )
    sections = {"model": {**config.model, "backbone": str(path)}}
    if config.data.get("tokenizer") == own:  # the tokenizer moves with its model
        sections["data"] = {**config.data, "tokenizer": str(path)}
    return config.with_sections(sections)
