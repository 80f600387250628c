"""All modules of the benchmarks can be imported."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks

NAMES = [
    module.name
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not module.name.endswith("__main__")
]
# Libraries that only `make bench` installs, or that a benchmark's text says to install.
OPTIONAL = {"haiku"}


def test_all_modules_can_be_imported() -> None:
    """No type checker reads them, so a name that fedkin no longer has is found here."""
    assert len(NAMES) > 50
    for name in NAMES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                pytest.fail(f"{name}: {error}")
