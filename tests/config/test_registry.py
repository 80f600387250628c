"""Named choices are resolved with all their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fedkin.config.registry import make, options, resolve
from fedkin.core.errors import ConfigError


@dataclass(frozen=True)
class Method:
    clusters: int = 3
    sizes: tuple[int, ...] = ()


METHODS = {"fedavg": Method}


def test_all_options_are_spelled_out_and_made() -> None:
    values = resolve("method", METHODS, {"name": "fedavg", "sizes": [1, 2]}, str)
    assert values == {"name": "fedavg", "clusters": 3, "sizes": [1, 2]}
    assert make(METHODS, values) == Method(3, (1, 2))
    assert options(Method) == {"clusters", "sizes"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "fedavh"}, r"^method\.name: unknown method 'fedavh'; did you mean 'fedavg'\?"),
        ({"name": 3}, r"^method\.name: expected the name of a method, got 3"),
        ({"name": "fedavg", "cluster": 3}, r"^method\.cluster: unknown key 'cluster'; did you mean 'clusters'\?"),
        ({"name": "fedavg", "nme": 3}, r"^method\.nme: unknown key 'nme'; did you mean 'name'\?"),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("method", METHODS, values, lambda key: f"method.{key}")
