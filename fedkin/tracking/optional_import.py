"""Importing a tracker's library, which need not be installed."""

from __future__ import annotations

import importlib
from typing import Any

from fedkin.core.errors import MissingExtra


def import_library(module: str, extra: str = "") -> Any:
    """A module of a library that comes with ``extra`` of fedkin (without one, by its own name).

    Raises MissingExtra where it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        command = f"pip install 'fedkin[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(
            f"tracking needs {package}, which is not installed: {command} ({error})"
        ) from error
