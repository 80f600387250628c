"""Named choices are resolved with all their options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedkin.config import registry
from fedkin.config.registry import make, options, resolve
from fedkin.core.errors import ConfigError


@dataclass(frozen=True)
class Method:
    clusters: int = 3
    sizes: tuple[int, ...] = ()


METHODS = {"fedavg": Method}


def test_all_options_are_spelled_out_and_made() -> None:
    entry = resolve("method", METHODS, {"name": "fedavg", "sizes": [1, 2]}, str)
    assert entry.values == {"name": "fedavg", "clusters": 3, "sizes": [1, 2]}
    assert entry.made == make(METHODS, entry.values) == Method(3, (1, 2))
    assert entry.made is entry.made
    assert options(Method) == {"clusters", "sizes"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "fedavh"}, r"^method\.name: unknown method 'fedavh'; did you mean 'fedavg'\?"),
        ({"name": 3}, r"^method\.name: expected the name of a method, got 3"),
        (
            {"name": "fedavg", "cluster": 3},
            r"^method\.cluster: unknown key 'cluster'; did you mean 'clusters'\?",
        ),
        ({"name": "fedavg", "nme": 3}, r"^method\.nme: unknown key 'nme'; did you mean 'name'\?"),
    ],
)
def test_refused_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("method", METHODS, values, lambda key: f"method.{key}")


def site_data(values: dict[str, Any]) -> Any:
    return registry.make_site_data(resolve("data set", registry.datasets(), values, str))


def test_text_labels_of_a_site_are_named_in_its_configuration(tmp_path: Path) -> None:
    rows = "\n".join(f"{i},{'ill' if i % 2 else 'well'},{i > 3},me" for i in range(20))
    (tmp_path / "mine.csv").write_text(f"age,outcome,old,client_id\n{rows}\n")
    values = {
        "name": "file",
        "path": str(tmp_path / "mine.csv"),
        "features": ["age"],
        "label": "outcome",
    }
    with pytest.raises(ConfigError, match=r"every site, such as label_names = \['ill', 'well'\]"):
        site_data(values)
    data = site_data({**values, "label_names": ["well", "ill", "dead"]})
    assert (data.classes, data.y[:2].tolist()) == (3, [0, 1])
    # Everywhere alike.
    assert site_data({**values, "label": "old"}).label_names == (
        "False",
        "True",
    )
    assert site_data({"name": "digits"}).label_names is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"name": "femnist", "scale": "robust"},
            r'^data\.scale: applies to .* data\.path = "patients\.csv", but femnist is no table',
        ),
        ({"name": "synthetic", "drop": ["a"]}, r"^data\.drop: applies to .* synthetic is no table"),
        ({"name": "file", "drops": ["a"]}, r"unknown key 'drops'; did you mean 'drop'"),
    ],
)
def test_options_of_tables_are_refused_for_other_data(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("data set", registry.datasets(), values, lambda key: f"data.{key}")
