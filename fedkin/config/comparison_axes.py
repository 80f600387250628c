"""The axes of a comparison's grid: options of a configuration, and the values that each of them
takes."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fedkin.config.loader import parse_value
from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain_lists
from fedkin.options import SECTIONS as OPTIONS

_log = logging.getLogger("fedkin")

SECTIONS = ("data", "model", *OPTIONS, "local", "scenario", "shift", "run")
# Everything but a comma; commas within brackets and quotes do not part values.
_PARTS = re.compile(r"""(?:\[[^\]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|[^,])+""")


class Axis(NamedTuple):
    """An option, ``section.key``, and its values."""

    key: str
    values: list[Any]

    @property
    def section(self) -> str:
        """The part before the dot."""
        return self.key.partition(".")[0]

    @property
    def option(self) -> str:
        """The part behind the dot."""
        return self.key.partition(".")[2]

    def sections(self, value: Any) -> dict[str, dict[str, Any]]:
        """One of the values as a section to be laid over others."""
        return {self.section: {self.option: value}}

    def label(self, value: Any) -> str:
        """One of the values in a label, behind its option; a name stands alone."""
        return str(value) if self.option == "name" else f"{self.option} {value}"


def from_table(grid: Mapping[str, Any], place: str) -> list[Axis]:
    """``{"local.lr" = [0.01, 0.03]}``, or as TOML's tables have it: ``{local = {lr = [0.01,
    0.03]}}``.

    Raises ConfigError for what is no list of values.
    """
    flat: list[tuple[str, Any]] = []
    for key, values in grid.items():
        inner = values.items() if isinstance(values, dict) else ()
        flat += [(f"{key}.{option}", several) for option, several in inner] or [(key, values)]
    flat = [(key, plain_lists(values)) for key, values in flat]
    for key, values in flat:
        if not isinstance(values, (list, tuple)) or not values:
            raise ConfigError(
                f"{place}: {key}: expected a list of values, got {values!r}; without one there is "
                "no cell"
            )
        if any(value is None for value in values):
            raise ConfigError(
                f"{place}: {key}: None is no value; leave it out, or write the value that is meant"
            )
    return [Axis(key, [_toml_value(value) for value in values]) for key, values in flat]


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
        raise ConfigError(
            f"--grid: expected section.key=value,value, got {text!r}; without values there is no "
            "cell"
        )
    return Axis(key.strip(), [_toml_value(part) for part in parts])


def _toml_value(value: Any) -> Any:
    """A value as JSON and TOML both have it: paths and dates are texts, NumPy's numbers plain."""
    return json.loads(json.dumps(plain_lists(value), default=str))


def merged(of_file: Sequence[Axis], given: Sequence[Axis]) -> list[Axis]:
    """The axes of a file and the given ones, each with each; of a key that both have, only
    the given values.

    What is replaced, and what stays, is logged.

    Args:
        of_file: of [compare] grid.
        given: of the command line, or of Python.

    Raises:
        ConfigError: what is no axis, and one that is named twice in one place.
    """
    check_axes(of_file)
    check_axes(given)
    keys = [axis.key for axis in given]
    stays = [axis for axis in of_file if axis.key not in keys]
    replaced = [axis.key for axis in of_file if axis.key in keys]
    if of_file and given:
        _say_merged(
            ", ".join(axis.key for axis in stays) or "nothing", ", ".join(replaced) or "nothing"
        )
    return [*stays, *given]


@cache
def _say_merged(stays: str, replaced: str) -> None:
    """Once in a process."""
    _log.warning(
        "grid: of the file's own, replaced: %s; tried as well, each with each: %s", replaced, stays
    )


def check_axes(axes: Iterable[Axis]) -> None:
    """Refuse what is no axis, and one that is named twice: the second would silently replace the
    first.

    Raises ConfigError.
    """
    keys = set()
    for axis in axes:
        check_key(axis.key, "compare.grid", (*SECTIONS, "method"))
        if axis.key in keys:
            raise ConfigError(
                f"compare.grid: {axis.key} is named twice; put all its values into one list"
            )
        keys.add(axis.key)


def check_key(key: str, place: str, sections: Iterable[str] = SECTIONS) -> None:
    """Refuse (ConfigError) a key that settings cannot differ in.

    Args:
        key: ``section.key``.
        place: where it was read.
        sections: that settings can differ in.
    """
    section, _, option = key.partition(".")
    if section not in sections:
        raise ConfigError(f"{place}: {key}: {unknown('section', section, sections)}")
    if not option:
        raise ConfigError(f"{place}: {key}: expected section.key, such as local.lr")
    if key in ("run.seed", "run.seeds", "run.against", "method.name"):
        other = "--methods" if key in ("run.against", "method.name") else "--seeds"
        raise ConfigError(f"{place}: {key} is no axis; use {other}")
