"""The grid of a comparison: which methods, on which data and scenarios, with which settings, from which seeds.

A file for ``fedkin run``, and a section more::

    [compare]
    methods = ["fedavg", {name = "ifca", clusters = 4, label = "IFCA with four"}]
    seeds = 5
    grid = {"local.lr" = [0.01, 0.03]}    # all of them, each with each

    [[compare.data]]                      # sections laid over those of the file, one entry after another
    label = "two classes"
    data = {classes_per_client = 2}

    [[compare.scenarios]]                 # the same, and each of these with each of those
    label = "a third is slow"
    scenario = {stragglers = 0.3}

A setting is a choice from all of these but the methods and the seeds; a cell is a method in a setting, from all seeds.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from fedkin.config import comparison_axes as axis
from fedkin.config import registry
from fedkin.config.comparison_axes import SECTIONS, Axis
from fedkin.config.plan import whole_number
from fedkin.config.run import DEMO, Config, Positive, from_dict, named, override, read_toml
from fedkin.config.schema import Section, Values, checked
from fedkin.core.errors import ConfigError, unknown

SEEDS = 3  # where nothing is said: the least that can be tested
MEASURES = {  # what methods are told apart by, and where a run's summary has it
    "final": "final_accuracy",
    "best": "best_accuracy",
    "worst": "bottom_decile",
}


class Compare(Section):
    """[compare], where a file has it."""

    methods: list[str | Values] | None = None
    seeds: Positive | None = None
    grid: dict[str, Any] = Field(default_factory=dict)
    data: list[Values] | None = None
    scenarios: list[Values] | None = None


@dataclass(frozen=True)
class Variant:
    """A method with its options, and what tables call it."""

    label: str
    entry: Values


@dataclass(frozen=True)
class Setting:
    """Everything but method and seed; the label says how it differs from its neighbours, and is empty alone."""

    label: str
    raw: dict[str, Values]

    def config(self, method: Variant) -> Config:
        """The configuration of a method in this setting, as ``fedkin run`` would have it.

        Raises ConfigError for what cannot be.
        """
        place = f" (in the setting {self.label!r})" if self.label else ""
        return from_dict({**self.raw, "method": method.entry}, lambda key: f"{key}{place}")


@dataclass(frozen=True)
class Grid:
    """A checked grid; every method can be made, every setting is known to be spelled right."""

    settings: tuple[Setting, ...]
    methods: tuple[Variant, ...]
    seeds: tuple[int, ...]
    by: str = "final"  # what methods are told apart by: a name of MEASURES

    def __post_init__(self) -> None:
        for kind, several in (("setting", self.settings), ("method", self.methods), ("seed", self.seeds)):
            if not several:
                raise ConfigError(f"compare: there is no {kind}, so the grid has no cell")
        if len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ConfigError(f"compare: seeds must be different ones from 0 on, got {list(self.seeds)}")
        refuse_measure(self.by)
        _refuse_twins("method", [variant.label for variant in self.methods])
        _refuse_twins("setting", [setting.label for setting in self.settings])
        for setting, method in itertools.product(self.settings, self.methods):
            setting.config(method)

    @property
    def cells(self) -> list[tuple[Setting, Variant]]:
        return list(itertools.product(self.settings, self.methods))

    def description(self) -> dict[str, Any]:
        """As comparison.toml holds it, spelled out; ``from_description`` reads it back."""
        return {
            "by": self.by,
            "seeds": list(self.seeds),
            "methods": [{"label": variant.label, "method": variant.entry} for variant in self.methods],
            "settings": [{"label": setting.label, **setting.raw} for setting in self.settings],
        }


def from_description(described: dict[str, Any], where: Path) -> Grid:
    """The grid of a comparison's folder.

    Raises ConfigError where it is none.
    """
    try:
        settings = [Setting(s["label"], {k: v for k, v in s.items() if k != "label"}) for s in described["settings"]]
        methods = [Variant(m["label"], dict(m["method"])) for m in described["methods"]]
        seeds = tuple(int(seed) for seed in described["seeds"])
        return Grid(tuple(settings), tuple(methods), seeds, described["by"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{where}: is not the description of a comparison: {error}") from error


def load(
    path: Path | None,
    overrides: Sequence[str] = (),
    methods: Sequence[str] | None = None,
    seeds: int | None = None,
    sweeps: Sequence[str] = (),
    axes: Mapping[str, Sequence[Any]] | None = None,
) -> Grid:
    """Read a file (or the demonstration's settings), with ``section.key=value`` on top; ``methods`` and ``seeds``
    replace the file's, ``sweeps`` (``section.key=value,value``) and ``axes`` join its grid.

    Raises ConfigError: as ``config.load`` does, and for a grid without a cell.
    """
    raw: dict[str, Any] = read_toml(path) if path else {name: dict(entries) for name, entries in DEMO.items()}
    if not raw:
        raise ConfigError(f"{path}: says nothing; expected sections such as [data], [method] and [compare]")
    override(raw, overrides, path)
    told = raw.pop("compare", {})
    if not isinstance(told, dict):
        raise ConfigError(f"{path}: compare: expected a section, got {told!r}")
    where = f"{path}: " if path else ""
    section = checked(Compare, told, lambda key: f"{where}compare.{key}")
    from_file, from_python = axis.from_table(section.grid, f"{where}compare.grid"), axis.from_table(axes or {}, "grid")
    all_axes = [*from_file, *from_python, *map(axis.from_text, sweeps)]
    return make(raw, section, methods, seeds, all_axes, where)


def make(
    raw: dict[str, Any],
    section: Compare,
    methods: Sequence[str] | None,
    seeds: int | None,
    axes: Sequence[Axis],
    where: str = "",
) -> Grid:
    """The grid that a file's sections, its [compare] and the arguments come to."""
    from_dict({key: value for key, value in raw.items()}, lambda key: f"{where}{key}")  # the file for itself is right
    run = dict(raw.get("run", {}))
    if seeds is not None:
        whole_number("seeds", seeds, 1)
    count = seeds or section.seeds or run.get("seeds") or SEEDS
    first = run.get("seed", 0)
    base = {name: dict(raw[name]) for name in SECTIONS if name in raw}
    base["run"] = {key: value for key, value in run.items() if key not in ("seed", "seeds", "against")}
    axis.refuse_twins(axes)
    shared = [one for one in axes if not one[0].startswith("method.")]
    shared.sort(key=lambda one: not one[0].endswith(".name"))  # a new name takes the section's options away
    of_methods = [one for one in axes if one[0].startswith("method.")]
    chosen = section.methods if methods is None else list(methods)
    variants = _variants(_entries(raw, chosen, where), of_methods, where)
    settings = _settings(base, section, shared)
    return Grid(settings, variants, tuple(range(first, first + count)))


def _entries(raw: dict[str, Any], chosen: Sequence[str | Values] | None, where: str) -> list[Values]:
    """The methods, each with the options that the file gives it: in [method], in run.against or in the list itself."""
    main = {"name": "fedgroup"} | raw.get("method", {})
    beside = [{"name": one} if isinstance(one, str) else one for one in raw.get("run", {}).get("against", [])]
    told = {one["name"]: one for one in (*beside, main)}
    if chosen is None:
        return list({main["name"]: main, **told}.values())
    if not chosen:
        raise ConfigError(f"{where}compare.methods names no method, so the grid has no cell")
    for one in chosen:
        if not isinstance(one, str) and "name" not in one:
            raise ConfigError(f"{where}compare.methods: expected a method's name or a table with one, got {one!r}")
    return [told.get(one, {"name": one}) if isinstance(one, str) else one for one in chosen]


def _variants(entries: Iterable[Values], axes: Sequence[Axis], where: str) -> tuple[Variant, ...]:
    """Each method with each combination of the values of those axes that it has an option for."""
    variants, used = [], set()
    for entry in entries:
        bare = {key: value for key, value in entry.items() if key != "label"}
        options = named("method", registry.methods(), bare, lambda key: f"{where}compare.methods: {key}")
        _refuse_label(entry.get("label", ""), f"{where}compare.methods")
        label = _one_line(entry.get("label") or registry.method_title(bare["name"]))
        own = [(key.removeprefix("method."), values) for key, values in axes]
        own = [(key, values) for key, values in own if key in registry.options(registry.methods()[bare["name"]])]
        used |= {key for key, _ in own}
        for values in itertools.product(*(values for _, values in own)):
            changed = dict(zip((key for key, _ in own), values, strict=True))
            full = named("method", registry.methods(), {**bare, **changed}, lambda key: f"compare.grid: method.{key}")
            told = [f"{key} {changed[key]}" for key, several in own if len(several) > 1]
            variants.append(Variant(", ".join([label, *told]), full if changed else options))
    for key, _ in axes:
        if key.removeprefix("method.") not in used:
            raise ConfigError(f"compare.grid: no method of this comparison has an option {key!r}")
    return tuple(variants)


def _settings(base: dict[str, Values], section: Compare, axes: Sequence[Axis]) -> tuple[Setting, ...]:
    """Data x scenarios x the values of the axes."""
    layers = [_layers(entries, kind) for kind, entries in (("data", section.data), ("scenarios", section.scenarios))]
    layers += [
        [(axis.told(key, value) if len(values) > 1 else "", axis.laid(key, value)) for value in values]
        for key, values in axes
    ]
    settings = []
    for combination in itertools.product(*layers):
        raw = base
        for _, sections in combination:
            raw = _over(raw, sections)
        settings.append(Setting(_one_line(", ".join(label for label, _ in combination if label)), raw))
    return tuple(settings)


def _layers(entries: Sequence[Values] | None, kind: str) -> list[tuple[str, dict[str, Values]]]:
    """The entries of [[compare.data]] or [[compare.scenarios]]: a label, and the sections laid over the file's."""
    if entries is not None and not entries:
        raise ConfigError(f"compare.{kind} is an empty list, so the grid has no cell; leave it out, or add an entry")
    layers = []
    for number, entry in enumerate(entries or [{}], 1):
        sections = {key: value for key, value in entry.items() if key != "label"}
        for key, value in sections.items():
            if key not in SECTIONS:
                raise ConfigError(f"compare.{kind}: {unknown('section', key, SECTIONS)}")
            if not isinstance(value, dict):
                raise ConfigError(f"compare.{kind}: {key}: expected a table such as {{name = ...}}, got {value!r}")
            for option in value:
                axis.refuse_other(f"{key}.{option}", f"compare.{kind}")
        label = entry.get("label") or sections.get("data", {}).get("name") or f"{kind} {number}"
        _refuse_label(label, f"compare.{kind}")
        layers.append((str(label) if entries and len(entries) > 1 else "", sections))
    return layers


def _over(raw: dict[str, Values], sections: dict[str, Values]) -> dict[str, Values]:
    """Sections laid over others: one that is named anew replaces, the others are changed key by key."""
    out = dict(raw)
    for name, values in sections.items():
        before = raw.get(name, {})
        anew = "name" in values and values["name"] != before.get("name")
        out[name] = values if anew else {**before, **values}
    return out


def _refuse_twins(kind: str, labels: Iterable[str]) -> None:
    """Refuse two that would share a folder."""
    taken: dict[str, str] = {}
    for label in labels:
        if slug(label) in taken:
            called = repr(label) if taken[slug(label)] == label else f"{taken[slug(label)]!r} and {label!r}"
            raise ConfigError(f"compare: two {kind}s are called {called}; give one of them another label")
        taken[slug(label)] = label


def _refuse_label(label: Any, where: str) -> None:
    if not isinstance(label, (str, int, float)):
        raise ConfigError(f"{where}: label: expected text, got {label!r}")


def _one_line(label: Any) -> str:
    return " ".join(str(label).split())


def slug(label: str) -> str:
    """A label as the name of a folder: what is lost of it, a digest tells apart."""
    plain = re.sub(r"[^a-z0-9.+-]+", "-", label.lower()).strip("-.")
    if label.isascii() and len(plain) <= 60:
        return plain or "all"
    return f"{plain[:60]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}".lstrip("-")


def refuse_measure(measure: str) -> None:
    """Refuse what methods cannot be told apart by (ConfigError)."""
    if measure not in MEASURES:
        raise ConfigError(unknown("measure", str(measure), MEASURES))
