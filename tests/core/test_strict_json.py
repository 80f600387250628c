"""JSON that other programs can read: no NaN, no infinity."""

from __future__ import annotations

import json
import math

import numpy as np

from fedkin.core.strict_json import finite_or_none, json_text


def test_nan_and_infinity_become_null_at_any_depth() -> None:
    value = {"a": math.nan, "b": [1.5, -math.inf, {"c": (np.float32(np.nan), np.int64(3))}]}
    text = json_text(value)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert json.loads(text, parse_constant=refuse) == {
        "a": None,
        "b": [1.5, None, {"c": [None, 3]}],
    }


def test_other_values_stay_as_they_are() -> None:
    value = {"text": "NaN", "flag": True, "none": None, "count": 3, "share": 0.1}
    assert json.loads(json_text(value, indent=2)) == value
    assert finite_or_none(0.1) == 0.1
    assert finite_or_none(math.inf) is None
