"""Axes of a comparison's grid. An axis is an option of the configuration with a list of values, and
methods are compared at each of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fedkin.config.distributions import Distribution, RandomChoice, from_value, is_distribution
from fedkin.config.loader import parse_override
from fedkin.config.value_texts import parse_values
from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain_lists
from fedkin.options import SECTIONS as OPTIONS

_log = logging.getLogger("fedkin")

SECTIONS = ("data", "model", *OPTIONS, "local", "scenario", "shift", "run")
# Sections that describe the problem: the data, what happens to clients, and the privacy that they
# ask for. A comparison chooses no winner among problems. All other sections describe a solution,
# and can be tuned.
PROBLEM_SECTIONS = (
    "data",
    "scenario",
    "shift",
    *(name for name, option in OPTIONS.items() if option.is_problem),
)
TUNED_IN_PROBLEMS = ("privacy.clip",)  # options of these sections that can be tuned


class Axis(NamedTuple):
    """An option ``section.key`` and its values.

    Attributes:
        key: the option.
        values: its values; empty if a distribution is given.
        distribution: the distribution from which a random search draws the values; None for a list.
    """

    key: str
    values: list[Any]
    distribution: Distribution | None = None

    @property
    def section(self) -> str:
        """The section of the key: the part before the dot."""
        return self.key.partition(".")[0]

    @property
    def option(self) -> str:
        """The option in the section: the part after the dot."""
        return self.key.partition(".")[2]

    @property
    def tuned(self) -> bool:
        """Whether the option can be tuned, because it does not describe the problem."""
        return is_tuned(self.key)

    def drawn_from(self) -> Distribution:
        """The distribution from which a random search draws the option: its own, or its list of
        values with equal probabilities."""
        return self.distribution or RandomChoice(tuple(self.values))

    def sections(self, value: Any) -> dict[str, dict[str, Any]]:
        """A value of the axis in the form of a configuration: ``{section: {option: value}}``."""
        return {self.section: {self.option: value}}

    def label(self, value: Any) -> str:
        """Text for a value of the axis in a setting's label, such as ``lr 0.1``; for an option such
        as ``model.name``, the name alone."""
        return str(value) if self.option == "name" else f"{self.option} {value}"


def from_table(grid: Mapping[str, Any], place: str) -> list[Axis]:
    """The axes (options with lists of values) in a table: ``{"local.lr" = [0.01, 0.03]}``, or
    nested: ``{local = {lr = [0.01, 0.03]}}``.

    Raises ConfigError unless each key has a list of values.
    """
    flat: list[tuple[str, Any]] = []
    for key, values in grid.items():
        inner = values.items() if isinstance(values, dict) else ()
        flat += [(f"{key}.{option}", several) for option, several in inner] or [(key, values)]
    axes = []
    for key, values in flat:
        distribution = from_value(values, f"{place}: {key}")
        if distribution is None:
            axes.append(Axis(key, _listed(key, plain_lists(values), place)))
        else:
            axes.append(Axis(key, [], distribution))
    return axes


def _listed(key: str, values: Any, place: str) -> list[Any]:
    """The values of an option as TOML values. Raises ConfigError unless they are a list of
    values."""
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigError(
            f"{place}: {key}: expected a list of values, got {values!r}; a grid without values "
            'has no cell to run; for example "local.lr" = [0.01, 0.1]'
        )
    if any(value is None for value in values):
        raise ConfigError(
            f"{place}: {key}: None is not a valid value; remove it, or write the default value "
            "itself"
        )
    return [_toml_value(value) for value in values]


def from_text(text: str) -> Axis:
    """An axis (an option with its values) from a text ``section.key=value,value``, or
    ``section.key=log(0.01,0.3)`` for a distribution. Values are TOML values or words.

    Raises ConfigError if the text has another form.
    """
    key, equals, values = text.partition("=")
    distribution = from_value(values, key.strip())
    if distribution is not None:
        return Axis(key.strip(), [], distribution)
    parts = parse_values(values)
    if not equals or "." not in key or not parts:
        raise ConfigError(
            f"--grid: expected section.key=value,value, got {text!r}; a grid without values has no "
            "cell to run; for example --grid local.lr=0.01,0.1"
        )
    return Axis(key.strip(), [_toml_value(part) for part in parts])


def split_overrides(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide texts ``section.key=value`` into those that set one value, and those that give a
    distribution, such as ``local.lr=log(0.01,0.3)``."""
    single: list[str] = []
    random: list[str] = []
    for text in overrides:
        group = random if is_distribution(parse_override(text).value) else single
        group.append(text)
    return single, random


def is_tuned(key: str) -> bool:
    """Whether an option can be tuned, because it does not describe the problem."""
    return key in TUNED_IN_PROBLEMS or key.partition(".")[0] not in PROBLEM_SECTIONS


def _toml_value(value: Any) -> Any:
    """Convert a value to a type that JSON and TOML have: paths and dates become text, NumPy numbers
    become Python numbers."""
    return json.loads(json.dumps(plain_lists(value), default=str))


def merged(of_file: Sequence[Axis], given: Sequence[Axis]) -> list[Axis]:
    """Merge the axes (options with lists of values) of a comparison's file with those given on the
    command line or in Python. If both have an axis of the same key, the given values replace the
    file's.

    It is logged which axes of the file are replaced, and which remain.

    Args:
        of_file: axes of [compare] grid.
        given: axes from the command line or from Python.

    Raises:
        ConfigError: an option cannot be an axis, or is named twice in one place.
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
    """Log once per process how given axes and the file's axes were merged."""
    _log.warning(
        "the given grid replaces these axes of the comparison file: %s; "
        "these axes of the file remain: %s",
        replaced,
        stays,
    )


def check_axes(axes: Iterable[Axis]) -> None:
    """Raise ConfigError for an option that cannot be an axis of a grid, or is named twice."""
    keys = set()
    for axis in axes:
        check_key(axis.key, "compare.grid", (*SECTIONS, "method"))
        if axis.key in keys:
            raise ConfigError(
                f"compare.grid: {axis.key} is given twice; put all its values into one list"
            )
        keys.add(axis.key)


def check_key(key: str, place: str, sections: Iterable[str] = SECTIONS) -> None:
    """Raise ConfigError for a key that cannot differ between the settings of a comparison.

    Args:
        key: the option, ``section.key``.
        place: where the key was read, for messages.
        sections: sections that can differ between settings.
    """
    section, _, option = key.partition(".")
    if section not in sections:
        raise ConfigError(f"{place}: {key}: {unknown('section', section, sections)}")
    if not option:
        raise ConfigError(f"{place}: {key}: expected section.key, such as local.lr")
    if key in ("run.seed", "run.seeds", "run.against", "method.name"):
        other = "--methods" if key in ("run.against", "method.name") else "--seeds"
        raise ConfigError(f"{place}: {key} cannot be an axis; use {other}")
