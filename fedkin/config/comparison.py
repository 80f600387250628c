"""The configuration of a comparison: methods, data and scenarios, settings, and seeds.

It is a file for ``fedkin run`` with one more section:

    [compare]
    methods = ["fedavg", {name = "ifca", clusters = 4, label = "IFCA with four"}]
    seeds = 5
    grid = {"local.lr" = [0.01, 0.03]}    # every method runs with each of these values

    [[compare.data]]                      # each entry replaces values of the section [data]
    label = "two classes"
    classes_per_client = 2

    [[compare.scenarios]]                 # of [scenario]; each is combined with each data entry
    stragglers = 0.3

An entry of [[compare.data]] or [[compare.scenarios]] may also replace values of other sections:
``model = {name = "cnn"}``.

With ``trials = 20`` the grid's options are drawn at random instead, and a value may be a
distribution: ``grid = {"local.lr" = "log(0.01, 0.3)"}``.

A setting is one combination of data, scenario and grid values. A cell is a method in a setting,
with all seeds.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from fedkin.config import comparison_axes as axis
from fedkin.config import registry, run
from fedkin.config.comparison_axes import SECTIONS, Axis
from fedkin.config.comparison_grid import ComparisonGrid, Setting
from fedkin.config.comparison_trials import check_bounds, check_integers, search
from fedkin.config.comparison_variants import check_label, one_line, variants
from fedkin.config.declarations import METHOD, one_class
from fedkin.config.inherited_options import carry_over
from fedkin.config.loader import Sections, read
from fedkin.config.metrics_settings import SECTION as METRICS
from fedkin.config.option_registry import known_values
from fedkin.config.plan import RunSettings
from fedkin.config.run import demo_for
from fedkin.config.schema import Place, Positive, Section, Values, check_integer
from fedkin.core.errors import ConfigError, unknown
from fedkin.core.method import Method
from fedkin.scenarios.population import Population

_log = logging.getLogger("fedkin")

# Methods to compare; the keys of a mapping are the methods' labels.
Methods = Sequence[str | Values | Method] | Mapping[str, str | Values | Method]
# The section of a key that an entry of [[compare.data]] or [[compare.scenarios]] has by itself. It
# also names the column of their labels.
SECTION_OF = {"data": "data", "scenarios": "scenario"}
SEEDS = 3  # default number of seeds: the minimum for a statistical test


class CompareSection(Section):
    """The section [compare] of a comparison's file."""

    methods: list[str | Values] | None = None
    seeds: Positive | None = None
    grid: dict[str, Any] = Field(default_factory=dict)
    data: list[Values] | None = None
    scenarios: list[Values] | None = None
    # number of trials of a random search, which draws from the grid; not set: no search
    trials: Positive | None = None


# What declares the keys of each section of a comparison's file.
DECLARED = {
    **{name: section for name, section in run.DECLARED.items() if name != METRICS},
    "compare": one_class(CompareSection),
}


class Layer(NamedTuple):
    """The values of a setting (a configuration without method and seed) that come from one value of
    an axis (an option with several values), or from one entry of [[compare.data]] or
    [[compare.scenarios]].

    Attributes:
        label: text that is added to the setting's label; may be empty.
        sections: the values that replace values of the file, by section.
        values: the values by option, ``section.key``. For an entry of [[compare.data]] it is the
            entry's label, under ``data``. Empty if all settings have the same values.
    """

    label: str
    sections: dict[str, Values]
    values: dict[str, Any]


def load(
    path: Path | None,
    overrides: Sequence[str] = (),
    methods: Methods | None = None,
    seeds: int | None = None,
    sweeps: Sequence[str] = (),
    axes: Mapping[str, Sequence[Any] | str] | None = None,
    trials: int | None = None,
) -> ComparisonGrid:
    """Read the configuration of a comparison from its file, or from the demonstration's settings.

    Args:
        path: the file; None: the demonstration that ``fedkin run`` uses without a file.
        overrides: texts ``section.key=value``, which replace values of the file. A text with a
            distribution, ``local.lr=log(0.01,0.3)``, is added to the grid.
        methods: methods that replace those of the file, as names, tables or instances, or as a
            mapping from labels to these; None: the file's methods.
        seeds: number of seeds; None: the file's number.
        sweeps: texts ``section.key=value,value``, added to the file's grid. They replace the grid's
            values of the same key.
        axes: lists of values, or distributions, by ``section.key``, added to the grid like
            ``sweeps``.
        trials: number of trials of a random search; None: the file's number, or no random search.

    Raises:
        ConfigError: the configuration is invalid (as in ``config.run.load``), or no method or
            setting is left to run.
    """
    single_values, distributions = axis.split_overrides(overrides)
    raw, place = read(path, single_values, demo_for(single_values), DECLARED)
    return from_dict(
        raw,
        place,
        methods=methods,
        seeds=seeds,
        sweeps=[*sweeps, *distributions],
        axes=axes,
        trials=trials,
    )


def from_dict(
    raw: Mapping[str, Any],
    place: Place = str,
    methods: Methods | None = None,
    seeds: int | None = None,
    sweeps: Sequence[str] = (),
    axes: Mapping[str, Sequence[Any] | str] | None = None,
    trials: int | None = None,
) -> ComparisonGrid:
    """Validate the configuration of a comparison, and make its grid.

    Args:
        raw: the sections of the configuration.
        place: function that turns ``section.key`` into its name in messages, such as
            ``FILE: section.key``.
        methods, seeds, sweeps, axes, trials: values that replace those of the configuration, as in
            ``load``.
    """
    raw = dict(raw)
    compare = Sections({"compare": raw.pop("compare", {})}, ["compare"], place).validate(
        "compare", CompareSection
    )
    if METRICS in raw:
        raise ConfigError(
            f"{place(METRICS)}: does not apply to a comparison, whose runs may be in parallel "
            "processes; remove it"
        )
    of_run = run.from_dict(raw, place).run  # the file without its [compare] is a valid run
    file_axes = axis.from_table(compare.grid, place("compare.grid"))
    given_axes = [
        *axis.from_table(axes or {}, "grid"),
        *map(axis.from_text, sweeps),
    ]
    all_axes = axis.merged(file_axes, given_axes)
    # A new name resets the section's options, so axes of names come first.
    all_axes.sort(key=lambda one: one.option != "name")
    number = compare.trials if trials is None else trials
    crossed, drawn = search(all_axes, number, of_run.seed)
    of_methods = [one for one in (*crossed, *drawn) if one.section == "method"]
    of_settings = [one for one in crossed if one.section != "method"]
    entries = _entries(
        raw, compare.methods if methods is None else _listed(methods), place("compare.methods")
    )
    main_runs = _main(raw)["name"] in [entry["name"] for entry in entries]
    entries = carry_over(_main(raw), entries, [one.option for one in of_methods], main_runs)
    methods_with_values = variants(
        entries, _main(raw)["name"], of_methods, place("compare.methods"), drawn=bool(drawn)
    )
    settings = _settings(raw, compare, of_settings, drawn)
    check_integers(raw, all_axes, methods_with_values)
    check_bounds({**settings[0].raw, "method": methods_with_values[0].entry}, all_axes, place)
    return ComparisonGrid(
        settings,
        methods_with_values,
        _seeds(of_run, compare, seeds),
        trials=number,
    )


def _listed(methods: Methods) -> list[str | Values]:
    """Convert the methods given in Python to the form of a configuration file: names, and tables
    for instances and labelled methods."""
    if isinstance(methods, Mapping):
        return [_table(one) | {"label": label} for label, one in methods.items()]
    return [one if isinstance(one, str) else _table(one) for one in methods]


def _table(method: str | Values | Method) -> Values:
    """A method in the form of a configuration file: a table with its name and options."""
    if isinstance(method, str):
        return {"name": method}
    return dict(method) if isinstance(method, dict) else registry.method_entry(method)


def _seeds(of_run: RunSettings, compare: CompareSection, seeds: int | None) -> tuple[int, ...]:
    """The seeds of the comparison, counted up from run.seed. Their number is taken from the
    argument, [compare] or [run], in this order."""
    if seeds is not None:
        check_integer("seeds", seeds, 1)
    number = seeds or compare.seeds or of_run.seeds or SEEDS
    return tuple(range(of_run.seed, of_run.seed + number))


def _entries(raw: dict[str, Any], names: Sequence[str | Values] | None, place: str) -> list[Values]:
    """The compared methods as tables of name and options. If ``names`` gives only a method's name,
    its options come from [method] or run.against. If ``names`` is None, the methods are those of
    [method] and run.against."""
    main = _main(raw)
    against = [
        {"name": one} if isinstance(one, str) else one
        for one in raw.get("run", {}).get("against", [])
    ]
    by_name = {one["name"]: one for one in (*against, main)}
    if names is None:
        # The main method comes first, and each method once.
        return list({main["name"]: main, **by_name}.values())
    if not names:
        raise ConfigError(f"{place} lists no method, so the grid has no cell to run; add a method")
    for one in names:
        if not isinstance(one, str) and "name" not in one:
            raise ConfigError(
                f"{place}: expected a method's name or a table with a name, got {one!r}; for "
                'example methods = ["fedavg", {name = "ifca", clusters = 4}]'
            )
    return [by_name.get(one, {"name": one}) if isinstance(one, str) else one for one in names]


def _main(raw: dict[str, Any]) -> Values:
    """The section [method] of a comparison's file; its name is fedgroup if the file gives none."""
    return {"name": METHOD} | raw.get("method", {})


def _settings(
    raw: dict[str, Values], compare: CompareSection, axes: Sequence[Axis], drawn: Sequence[Axis]
) -> tuple[Setting, ...]:
    """All settings of a comparison: every combination of an entry of [[compare.data]], an entry of
    [[compare.scenarios]], a value of each axis (an option with several values), and a trial of the
    axes that are drawn at random."""
    base = {name: dict(raw[name]) for name in SECTIONS if name in raw}
    run = raw.get("run", {})
    base["run"] = {
        key: value for key, value in run.items() if key not in ("seed", "seeds", "against")
    }
    of_data = _layers(compare.data, "data")
    of_scenarios = _layers(compare.scenarios, "scenarios")
    of_axes = [_axis_layers(axis) for axis in axes]
    settings = []
    for combination in itertools.product(of_data, of_scenarios, *of_axes, _trial_layers(drawn)):
        sections = base
        values: dict[str, Any] = {}
        for layer in combination:
            sections = _overlay(sections, layer.sections)
            values |= layer.values
        label = one_line(", ".join(layer.label for layer in combination if layer.label))
        settings.append(Setting(label, sections, values))
    return tuple(settings)


def _axis_layers(axis: Axis) -> list[Layer]:
    """A ``Layer`` (label and values) for each value of an axis, which is an option with a list of
    values. If there is only one value, the labels of settings do not mention the axis."""
    shown = len(axis.values) > 1
    return [
        Layer(
            axis.label(value) if shown else "",
            axis.sections(value),
            {axis.key: value} if shown else {},
        )
        for value in axis.values
    ]


def _trial_layers(drawn: Sequence[Axis]) -> list[Layer]:
    """A ``Layer`` (label and values) for each trial of a random search. Without a search, it is one
    empty layer.

    Drawn options of methods are in the section ``method``. Each method takes those that it has.
    """
    if not drawn:
        return [Layer("", {}, {})]
    layers = []
    for number, trial in enumerate(zip(*(one.values for one in drawn), strict=True), 1):
        sections: dict[str, Values] = {}
        values: dict[str, Any] = {"trial": number}
        parts = [f"trial {number}"]
        for one, value in zip(drawn, trial, strict=True):
            sections.setdefault(one.section, {})[one.option] = value
            values[one.key] = value
            parts.append(one.label(value))
        layers.append(Layer(", ".join(parts), sections, values))
    return layers


def _layers(entries: Sequence[Values] | None, kind: str) -> list[Layer]:
    """A ``Layer`` (label and values) for each entry of [[compare.data]] or [[compare.scenarios]].
    ``kind`` is "data" or "scenarios"."""
    if entries is not None and not entries:
        raise ConfigError(
            f"compare.{kind} is an empty list, so the grid has no cell to run; remove the list, or "
            "add an entry"
        )
    layers = []
    for number, entry in enumerate(entries or [{}], 1):
        sections, differences = _entry_sections(entry, SECTION_OF[kind])
        for name, values in sections.items():
            if name not in SECTIONS:
                raise ConfigError(f"compare.{kind}: {unknown('section', name, SECTIONS)}")
            if not isinstance(values, dict):
                raise ConfigError(
                    f"compare.{kind}: {name}: expected a table such as {{name = ...}}, got "
                    f"{values!r}"
                )
            for option in values:
                axis.check_key(f"{name}.{option}", f"compare.{kind}")
        name = sections.get("data", {}).get("name")
        label = entry.get("label") or name or differences or f"{kind} {number}"
        check_label(label, f"compare.{kind}")
        several = entries is not None and len(entries) > 1
        values = {SECTION_OF[kind]: str(label)} if several else {}
        layers.append(Layer(str(label) if several else "", sections, values))
    return layers


def _entry_sections(entry: Values, section: str) -> tuple[dict[str, Any], str]:
    """The values of an entry of [[compare.data]] or [[compare.scenarios]] by section, and the label
    of those that stand in no section, such as ``alpha 1.0``.

    Args:
        entry: the entry. A key that is no section is a key of ``section``; a table whose name is
            neither is returned as it is, so that it is refused as an unknown section.
        section: ``data`` or ``scenario``.
    """
    sections: dict[str, Any] = {}
    values: Values = {}
    for key, value in entry.items():
        is_table = isinstance(value, dict) and key not in Population.__dataclass_fields__
        if key in SECTIONS or is_table:
            sections[key] = value
        elif key != "label":
            values[key] = value
    if values:
        inner = sections.get(section, {})
        sections[section] = {**inner, **values} if isinstance(inner, dict) else inner
    return sections, ", ".join(f"{key} {value}" for key, value in values.items())


def _overlay(raw: dict[str, Values], sections: dict[str, Values]) -> dict[str, Values]:
    """Replace values of a configuration's sections key by key. If another ``name`` is set in a
    section (e.g. of a model), the options of the old name are dropped. A new server optimiser keeps
    those options of the old one that it also has."""
    out = dict(raw)
    for name, values in sections.items():
        before = raw.get(name, {})
        renamed = "name" in values and values["name"] != before.get("name")
        if renamed and name == "server_optimizer":
            before = _applicable(before, str(values["name"]))
        elif renamed:
            before = {}
        out[name] = {**before, **values}
    return out


def _applicable(options: Values, name: str) -> Values:
    """Those of the given options that the server optimiser ``name`` has. The log lists the options
    that the optimiser does not have."""
    known = known_values("server_optimizer")
    if name not in known:  # none, or refused later
        return {}
    kept = {key: value for key, value in options.items() if key in registry.options(known[name])}
    left = [f"{key} = {value!r}" for key, value in options.items() if key not in (*kept, "name")]
    if left:
        _say_left_out(f"{name}: {', '.join(left)}")
    return kept


@cache
def _say_left_out(text: str) -> None:
    """Log once per process which options are ignored because a new server optimiser does not have
    them."""
    _log.warning(
        "[server_optimizer]: options ignored because the named optimiser does not have them: %s",
        text,
    )
