"""Imports the optional library of a tracker."""

from __future__ import annotations

import importlib
from typing import Any

from fedkin.core.errors import MissingExtra


def import_library(module: str, extra: str = "") -> Any:
    """A module of a library that is installed by ``extra`` of fedkin (by default, by the library's
    name).

    Raises MissingExtra if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        command = f"pip install 'fedkin[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(
            f"tracking needs {package}, which is not installed: {command} ({error})"
        ) from error
