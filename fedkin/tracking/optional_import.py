"""Import of the optional libraries of trackers."""

from __future__ import annotations

import importlib
from typing import Any

from fedkin.core.errors import MissingExtra


def import_library(module: str, extra: str = "") -> Any:
    """Import a module of an optional library. ``extra`` is fedkin's extra that installs it; empty:
    the library is installed by its own name.

    Raises MissingExtra if the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        command = f"pip install 'fedkin[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(
            f"tracking needs {package}, which is not installed; run {command} ({error})"
        ) from error
