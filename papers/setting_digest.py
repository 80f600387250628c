"""The digest of a setting. It identifies a stored run, so that a changed recipe does not show old
runs.

Settings with the same digest have the same data and draw, model, method, training, rounds, cohort
and shift. Only the fields of a dataclass, such as a method, that differ from their defaults count.
So a new field with a default changes no digest, and a test checks the defaults themselves. A
correction of code behind a setting does not change the digest; the recipe's ``revision`` is raised
then.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

DIGITS = 12


def digest(setting: Mapping[str, Any]) -> str:
    """The digest of a setting, as hexadecimal digits.

    Args:
        setting: names and values; values may be dataclasses, arrays, and containers of them.
    """
    text = json.dumps(plain(setting), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def plain(value: Any) -> Any:
    """A value in JSON: a dataclass becomes its name and the fields that differ from their
    defaults."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            "class": type(value).__name__,
            **{name: plain(v) for name, v in _set_fields(value).items()},
        }
    if isinstance(value, Mapping):
        return {str(name): plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a setting holds plain values, got {value!r}")


def _set_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    fields = {f.name: (getattr(value, f.name), _default(f)) for f in dataclasses.fields(value)}
    return {
        name: actual for name, (actual, default) in fields.items() if not _equal(actual, default)
    }


def _default(field: dataclasses.Field) -> Any:
    return (
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    )


def _equal(actual: Any, default: Any) -> bool:
    """2 and 2.0 are equal, 1 and True are not."""
    if isinstance(actual, bool) != isinstance(default, bool):
        return False
    return (
        bool(np.array_equal(actual, default))
        if isinstance(actual, np.ndarray)
        else actual == default
    )
