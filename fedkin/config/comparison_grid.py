"""Grid of a comparison: settings x methods x seeds, and the measure by which methods are
compared."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable
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
    """A method with its options, and the label that names it in tables."""

    label: str
    entry: Values


@dataclass(frozen=True)
class Setting:
    """A configuration without method and seed. Its label says how it differs from the other
    settings of the grid, and is empty if there are no others."""

    label: str
    raw: dict[str, Values]
    _made: dict[str, RunConfig] = field(default_factory=dict, init=False, compare=False, repr=False)

    def config(self, method: Variant) -> RunConfig:
        """The configuration of a method in this setting, as for ``fedkin run``. It is cached.

        Raises ConfigError if the method cannot run in this setting.
        """
        made = self._made.get(method.label)
        if made is None or made.method.values != method.entry:
            suffix = f" (in the setting {self.label!r})" if self.label else ""
            made = from_dict({**self.raw, "method": method.entry}, lambda key: f"{key}{suffix}")
            self._made[method.label] = made
        return made


@dataclass(frozen=True)
class ComparisonGrid:
    """The settings, methods and seeds of a comparison. Every method has been checked to run in
    every setting."""

    settings: tuple[Setting, ...]
    methods: tuple[Variant, ...]
    seeds: tuple[int, ...]
    by: str = "final"  # measure by which methods are compared (``measures.lookup.compared_by``)

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
        }


def from_description(described: dict[str, Any], path: Path) -> ComparisonGrid:
    """The grid from the contents of a comparison.toml.

    Raises ConfigError if the contents do not describe a grid; ``path`` is for the message.
    """
    try:
        settings = [
            Setting(s["label"], {k: v for k, v in s.items() if k != "label"})
            for s in described["settings"]
        ]
        methods = [Variant(m["label"], dict(m["method"])) for m in described["methods"]]
        seeds = tuple(int(seed) for seed in described["seeds"])
        return ComparisonGrid(tuple(settings), tuple(methods), seeds, described["by"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} does not describe a comparison: {error}") from error


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
