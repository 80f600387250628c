"""The axes of a grid: options of a configuration, and the values that each of them takes."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedkin.config.run import parse_value
from fedkin.core.errors import ConfigError, unknown

SECTIONS = ("data", "model", "local", "scenario", "shift", "run")
Axis = tuple[str, list[Any]]  # section.key, and its values
# Everything but a comma; commas within brackets and quotes do not part values.
_PARTS = re.compile(r"""(?:\[[^\]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|[^,])+""")


def from_table(grid: Mapping[str, Any], where: str) -> list[Axis]:
    """``{"local.lr" = [0.01, 0.03]}``, or as TOML's tables have it: ``{local = {lr = [0.01, 0.03]}}``.

    Raises ConfigError for what is no list of values.
    """
    flat: list[tuple[str, Any]] = []
    for key, values in grid.items():
        inner = values.items() if isinstance(values, dict) else ()
        flat += [(f"{key}.{option}", several) for option, several in inner] or [(key, values)]
    for key, values in flat:
        if not isinstance(values, (list, tuple)) or not values:
            told = f"expected a list of values, got {values!r}; without one there is no cell"
            raise ConfigError(f"{where}: {key}: {told}")
        if any(value is None for value in values):
            raise ConfigError(f"{where}: {key}: None is no value; leave it out, or write the value that is meant")
    return [(key, [as_in_a_file(value) for value in values]) for key, values in flat]


def from_text(text: str) -> Axis:
    """``section.key=value,value`` as an axis: values of TOML, or words.

    Raises ConfigError for other text.
    """
    key, equals, values = text.partition("=")
    try:
        parts = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        parts = [parse_value(part) for part in _PARTS.findall(values) if part.strip()]
    if not equals or "." not in key or not parts:
        raise ConfigError(f"--grid: expected section.key=value,value, got {text!r}; without values there is no cell")
    return key.strip(), [as_in_a_file(part) for part in parts]


def as_in_a_file(value: Any) -> Any:
    """A value as JSON and TOML both have it: text for paths and dates, plain numbers for NumPy's."""
    return json.loads(json.dumps(value, default=lambda v: v.item() if isinstance(v, np.generic) else str(v)))


def refuse_twins(axes: Iterable[Axis]) -> None:
    """Refuse what is no axis, and one that is named twice: the second would silently replace the first.

    Raises ConfigError.
    """
    seen = set()
    for key, _ in axes:
        refuse_other(key, "compare.grid", (*SECTIONS, "method"))
        if key in seen:
            raise ConfigError(f"compare.grid: {key} is named twice; put all its values into one list")
        seen.add(key)


def refuse_other(key: str, place: str, sections: Iterable[str] = SECTIONS) -> None:
    """Refuse a key that settings cannot differ in (ConfigError)."""
    section, _, option = key.partition(".")
    if section not in sections:
        raise ConfigError(f"{place}: {key}: {unknown('section', section, sections)}")
    if not option:
        raise ConfigError(f"{place}: {key}: expected section.key, such as local.lr")
    if key in ("run.seed", "run.seeds", "run.against", "method.name"):
        other = "--methods" if key in ("run.against", "method.name") else "--seeds"
        raise ConfigError(f"{place}: {key} is no axis; {other} says it")


def laid(key: str, value: Any) -> dict[str, dict[str, Any]]:
    """A value of an axis as a section laid over others."""
    section, _, option = key.partition(".")
    return {section: {option: value}}


def told(key: str, value: Any) -> str:
    """An axis in a label: the option's name and the value; of a name only that."""
    option = key.partition(".")[2]
    return str(value) if option == "name" else f"{option} {value}"
