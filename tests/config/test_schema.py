"""Options are read from signatures, and nothing is converted in silence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from fedkin.config.run import load
from fedkin.config.schema import options_schema, toml_values, validate
from fedkin.core.errors import ConfigError


def dataset(
    *,
    clients: int = 10,
    alpha: float = 0.5,
    kind: Literal["a", "b"] = "a",
    sizes: tuple[int, ...] = (3,),
    deep: bool = False,
    path: str | Path = "here",
    limit: int | None = None,
    word: float | Literal["auto"] | None = None,
) -> None:
    """A function with every kind of option."""


@dataclass(frozen=True)
class Method:
    clusters: int
    table: dict[int, int] = field(default_factory=dict)


def read(call: Any, **values: Any) -> dict[str, Any]:
    return vars(validate(options_schema(call, ("data",)), values, lambda key: f"place.{key}"))


def test_defaults_are_spelled_out() -> None:
    section = validate(options_schema(dataset), {}, str)
    assert toml_values(section) == {
        "clients": 10,
        "alpha": 0.5,
        "kind": "a",
        "sizes": [3],
        "deep": False,
        "path": "here",
    }


def test_values_take_the_type_of_the_option() -> None:
    values = read(dataset, clients=3, alpha=1, kind="b", sizes=[1, 2], deep=True, limit=4)
    assert values == {
        "clients": 3,
        "alpha": 1.0,
        "kind": "b",
        "sizes": (1, 2),
        "deep": True,
        "path": "here",
        "limit": 4,
        "word": None,
    }
    assert read(dataset, word="auto")["word"] == "auto" and read(dataset, word=1)["word"] == 1.0
    assert read(Method, clusters=2, table={"5": 3}) == {"clusters": 2, "table": {5: 3}}
    assert toml_values(validate(options_schema(Method), {"clusters": 2}, str)) == {"clusters": 2}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clients": "ten"}, r"place\.clients: expected a valid integer, got 'ten'"),
        ({"clients": "10"}, r"place\.clients: expected a valid integer, got '10'"),
        ({"clients": 3.5}, r"place\.clients: expected a valid integer.* got 3\.5"),
        ({"clients": True}, r"place\.clients: expected a valid integer, got True"),
        ({"clients": [3]}, r"place\.clients: expected a valid integer, got \[3\]"),
        ({"alpha": "big"}, r"place\.alpha: expected a valid number, got 'big'"),
        ({"kind": "c"}, r"place\.kind: expected 'a' or 'b', got 'c'"),
        ({"sizes": [1, "x"]}, r"place\.sizes: expected a valid integer"),
        ({"deep": 1}, r"place\.deep: expected a valid boolean, got 1"),
        ({"word": "autoo"}, r"place\.word: expected a valid number or 'auto', got 'autoo'"),
        ({"limit": "x"}, r"place\.limit: expected a valid integer"),
        ({"cleints": 3}, r"place\.cleints: unknown key 'cleints'; did you mean 'clients'\?"),
        ({"zzz": 3}, r"place\.zzz: unknown key 'zzz'; known: alpha, clients, deep"),
    ],
)
def test_anything_else_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(dataset, **values)


def test_a_part_of_a_table_is_refused_with_the_table() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, ["local.schedule.name=cosine"])
    assert (
        str(error.value) == "local.schedule is a table; set the whole table: "
        """'local.schedule={name = "cosine", ...}'"""
    )


def test_a_value_without_a_default_is_required() -> None:
    with pytest.raises(ConfigError, match=r"place\.clusters: is required"):
        read(Method)


def test_a_schema_is_made_once_and_its_defaults_are_not_shared() -> None:
    """A comparison loads many configurations with the same options."""

    @dataclass
    class Layers:
        sizes: list[int] = field(default_factory=lambda: [8])

    assert options_schema(Layers) is options_schema(Layers)
    assert options_schema(Layers, ["sizes"]) is not options_schema(Layers)
    first: Any = validate(options_schema(Layers), {}, str)
    first.sizes.append(4)
    second: Any = validate(options_schema(Layers), {}, str)
    assert second.sizes == [8]
