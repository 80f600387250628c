"""The packages without which nothing can be measured. Imports the standard library only."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def missing() -> list[str]:
    """The packages that fedkin needs, by pyproject.toml, and that are not installed."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split(r"[<>=!~\[ ]", line)[0] for line in declared]
    return [name for name in names if installed(name) is None]


def installed(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
