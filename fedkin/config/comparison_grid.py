"""Grid of a comparison: settings x methods x seeds, and the measure by which methods are
compared."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedkin.config import user_methods
from fedkin.config.run import RunConfig, from_dict
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError
from fedkin.measures.lookup import compared_by
from fedkin.measures.measure import Measure


@dataclass(frozen=True)
class Variant:
    """A method with its options, and the label that names it in tables.

    Attributes:
        label: the label.
        entry: name and options.
        base: the label without values of the grid; empty: the label itself.
        values: the values of the grid that the method has, by ``method.option``.
        takes: the options that the method takes from a trial of a random search.
    """

    label: str
    entry: Values
    base: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The label without values of the grid, which all variants of a method share."""
        return self.base or self.label


@dataclass(frozen=True)
class Setting:
    """A configuration without method and seed. Its label says how it differs from the other
    settings of the grid, and is empty if there are no others.

    Attributes:
        label: the label.
        raw: the sections. In a random search, ``method`` has the drawn options of methods.
        values: the values in which it differs from other settings, by ``section.key``.
    """

    label: str
    raw: dict[str, Values]
    values: Mapping[str, Any] = field(default_factory=dict)
    _made: dict[str, RunConfig] = field(default_factory=dict, init=False, compare=False, repr=False)

    def config(self, method: Variant) -> RunConfig:
        """The configuration of a method in this setting, as for ``fedkin run``. It is cached.

        Raises ConfigError if the method cannot run in this setting.
        """
        made = self._made.get(method.label)
        entry = {**method.entry, **self._drawn_options(method)}
        if made is None or made.method.values != entry:
            suffix = f" (in the setting {self.label!r})" if self.label else ""
            made = from_dict({**self.raw, "method": entry}, lambda key: f"{key}{suffix}")
            self._made[method.label] = made
        return made

    def swept(self, method: Variant) -> dict[str, Any]:
        """The values of the grid that a run of a method in this setting has, by ``section.key``."""
        drawn = self._drawn_options(method)
        shared = {
            key: value
            for key, value in self.values.items()
            if not key.startswith("method.") or key.removeprefix("method.") in drawn
        }
        return {**shared, **method.values}

    def _drawn_options(self, method: Variant) -> Values:
        """The options that a method takes from this setting, if it is a trial of a random
        search."""
        return {
            key: value for key, value in self.raw.get("method", {}).items() if key in method.takes
        }


@dataclass(frozen=True)
class ComparisonGrid:
    """The settings, methods and seeds of a comparison. Every method has been checked to run in
    every setting."""

    settings: tuple[Setting, ...]
    methods: tuple[Variant, ...]
    seeds: tuple[int, ...]
    by: str = "final"  # measure by which methods are compared (``measures.lookup.compared_by``)
    trials: int | None = None  # number of trials of a random search

    def __post_init__(self) -> None:
        for kind, entries in (
            ("setting", self.settings),
            ("method", self.methods),
            ("seed", self.seeds),
        ):
            if not entries:
                raise ConfigError(
                    f"compare: the list of {kind}s is empty, so the grid has no cell to run; add a "
                    f"{kind}"
                )
        if len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ConfigError(
                f"compare: seeds must be different integers from 0 up, got {list(self.seeds)}"
            )
        _check_labels("method", [variant.label for variant in self.methods])
        _check_labels("setting", [setting.label for setting in self.settings])
        for setting, method in self.cells:
            setting.config(method)
        self.measure()  # raises an error now if ``by`` is unknown

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The user's measures, which every table shows after the built-in ones."""
        setting, method = self.cells[0]
        return setting.config(method).description().measures

    @property
    def drawn_settings(self) -> list[str]:
        """Labels of the settings in which each seed draws the data (``data.seed = "run"``)."""
        method = self.methods[0]
        return [one.label for one in self.settings if one.config(method).draws_data]

    def measure(self, by: str | None = None) -> Measure:
        """The measure by which methods are compared: the one called ``by``, or the grid's measure.

        Raises ConfigError for an unknown name.
        """
        return compared_by(self.by if by is None else by, self.measures)

    @property
    def cells(self) -> list[tuple[Setting, Variant]]:
        """All cells: every pair of a setting and a method."""
        return list(itertools.product(self.settings, self.methods))

    @cached_property
    def swept_keys(self) -> tuple[str, ...]:
        """The options in which settings or variants of a method differ: ``section.key``, ``data``
        or ``scenario`` for labelled entries, ``trial`` for a random search."""
        found: dict[str, None] = {}
        for entry in (*self.settings, *self.methods):
            found |= dict.fromkeys(entry.values)
        return tuple(found)

    def description(self) -> dict[str, Any]:
        """The grid as plain values for comparison.toml; ``from_description`` reads them."""
        note = user_methods.resume_note([variant.entry["name"] for variant in self.methods])
        return {
            **({"note": note} if note else {}),
            "by": self.by,
            "seeds": list(self.seeds),
            "methods": [
                {"label": variant.label, "method": variant.entry} for variant in self.methods
            ],
            "settings": [{"label": setting.label, **setting.raw} for setting in self.settings],
            **({"sweep": self._sweep()} if self.swept_keys else {}),
        }

    def _sweep(self) -> dict[str, Any]:
        """The values in which settings and variants differ, for comparison.toml."""
        return {
            **({"trials": self.trials} if self.trials else {}),
            "settings": [dict(setting.values) for setting in self.settings],
            "methods": [
                {"base": method.base, "values": dict(method.values), "takes": list(method.takes)}
                for method in self.methods
            ],
        }


def from_description(described: dict[str, Any], path: Path) -> ComparisonGrid:
    """The grid from the contents of a comparison.toml.

    Raises ConfigError if the contents do not describe a grid; ``path`` is for the message.
    """
    try:
        sweep = described.get("sweep", {})
        settings = [
            Setting(s["label"], {k: v for k, v in s.items() if k != "label"}, values)
            for s, values in _with_values(described["settings"], sweep.get("settings"))
        ]
        methods = [
            Variant(
                m["label"],
                dict(m["method"]),
                base=swept.get("base", ""),
                values=swept.get("values", {}),
                takes=tuple(swept.get("takes", ())),
            )
            for m, swept in _with_values(described["methods"], sweep.get("methods"))
        ]
        seeds = tuple(int(seed) for seed in described["seeds"])
        return ComparisonGrid(
            settings=tuple(settings),
            methods=tuple(methods),
            seeds=seeds,
            by=described["by"],
            trials=sweep.get("trials"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} does not describe a comparison: {error}") from error


def _with_values(
    entries: Sequence[dict[str, Any]], swept: Sequence[dict[str, Any]] | None
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The stored settings or methods of a comparison, each with its entry in the stored sweep.
    Raises ValueError if their numbers differ."""
    return list(zip(entries, swept or [{}] * len(entries), strict=True))


def slug(label: str) -> str:
    """A folder name for a label. If the label is long or not ASCII, the name ends with a digest."""
    plain = re.sub(r"[^a-z0-9.+-]+", "-", label.lower()).strip("-.")
    if label.isascii() and len(plain) <= 60:
        return plain or "all"  # the label of a grid's only setting is empty
    return f"{plain[:60]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}".lstrip("-")


def _check_labels(kind: str, labels: Iterable[str]) -> None:
    """Raise ConfigError if the labels of two methods or of two settings give the same folder
    name."""
    labels_of: dict[str, str] = {}
    for label in labels:
        if slug(label) in labels_of:
            called = (
                repr(label)
                if labels_of[slug(label)] == label
                else f"{labels_of[slug(label)]!r} and {label!r}"
            )
            raise ConfigError(
                f"compare: two {kind}s have the label {called}; give one of them another label: "
                '{name = "...", label = "..."} in a file, methods={"label": method} in Python'
            )
        labels_of[slug(label)] = label
