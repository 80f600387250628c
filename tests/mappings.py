"""Dictionaries of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """One dictionary of several. Later values replace earlier ones."""
    return {name: value for part in parts for name, value in part.items()}
