"""JSON without NaN and infinity, which other programs cannot read: both become null."""

from __future__ import annotations

import json
import math
from typing import Any


def finite_or_none(value: float) -> float | None:
    """The value, or None if it is not finite, since JSON has no NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def json_value(value: Any) -> Any:
    """A value as a JSON value, also within lists and dictionaries: NumPy numbers become Python
    numbers, NaN and infinity become None."""
    # Imported here, so that the command does not load NumPy before it needs it.
    import numpy as np

    if isinstance(value, (list, tuple)):
        return [json_value(entry) for entry in value]
    if isinstance(value, dict):
        return {name: json_value(entry) for name, entry in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return finite_or_none(value) if isinstance(value, float) else value


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as text of JSON, with null for NaN and infinity.

    Args:
        value: numbers, text, lists and dictionaries.
        indent: number of spaces of each level; None for one line.
    """
    return json.dumps(json_value(value), indent=indent, allow_nan=False)
