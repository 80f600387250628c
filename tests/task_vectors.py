"""Cases of the oracle vectors on task types: losses, measures, survival, forecasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def task_case(oracle: Callable[[str], dict[str, Any]], name: str) -> dict[str, Any]:
    """The inputs and outputs of a case."""
    (found,) = (case for case in oracle("tasks")["cases"] if case["id"] == name)
    return found
