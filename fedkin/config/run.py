"""The configuration of a run: the sections of its TOML file, and the objects made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from fedkin.config import registry, user_measures
from fedkin.config.declarations import METHOD, NAMED, Declared, one_class
from fedkin.config.description import Description
from fedkin.config.inherited_options import carry_over
from fedkin.config.loader import Sections, parse_override, read
from fedkin.config.metrics_settings import SECTION as METRICS
from fedkin.config.metrics_settings import MetricsSettings, metrics_settings
from fedkin.config.option_registry import made_options, own_sections, resolve_options
from fedkin.config.plan import RunSettings
from fedkin.config.registry import Entry, resolve, resolve_model
from fedkin.config.schema import Place, Positive, Section, Values, options_schema, toml_values
from fedkin.config.score_goals import check_goals, known_task_type
from fedkin.core.errors import ConfigError
from fedkin.core.training import LocalTraining, without_unused
from fedkin.measures.measure import Measure
from fedkin.options import SECTIONS as OPTIONS
from fedkin.options.base import Option
from fedkin.scenarios.population import Population

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData

SECTIONS = ("data", "model", "method", *OPTIONS, "local", "scenario", "shift", "run", METRICS)

# Settings of `fedkin run` without a file: a clustered method and FedAvg on handwritten digits.
DEMO: dict[str, Values] = {
    "data": {"name": "digits"},
    "model": {"name": "mclr"},
    "method": {"name": "fedgroup"},
    "run": {"against": ["fedavg"]},
}
# Overrides in place of the demonstration's data or model.
_OF_USER = (("data", "path"), ("model", "backbone"), ("model", "torch"))


class LocalSection(Section):
    """The section [local]: settings of local training."""

    epochs: Positive = 10
    batch_size: Positive = 10
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    optimizer: str = "sgd"  # ``sgd``, ``adam`` or ``adamw``
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    clip_norm: float | None = None
    # Schedule of the learning rate over rounds: a name, or a table of options; None: constant.
    schedule: str | Values | None = None
    # Schedule of the learning rate over the steps of one local training; None: constant.
    step_schedule: str | Values | None = None
    label_smoothing: float = 0.0
    # "balanced", or a weight for each class; None: all 1.
    class_weights: str | list[float] | None = None
    precision: str | None = None  # "bfloat16"; None: float32

    @property
    def values(self) -> Values:
        """The settings as TOML values. Options that were added in later versions of fedkin are
        included only if they are set, so that descriptions equal those of earlier versions."""
        return without_unused(toml_values(self))

    @cached_property
    def work(self) -> LocalTraining:
        """The settings as ``LocalTraining``. Raises ConfigError for invalid settings."""
        return LocalTraining.from_settings(self.model_dump())


# What declares the keys of each section.
DECLARED: dict[str, Declared] = {
    **NAMED,
    "local": one_class(LocalSection, LocalTraining),
    "scenario": one_class(Population),
    "run": one_class(RunSettings),
    METRICS: one_class(MetricsSettings),
}


@dataclass(frozen=True)
class RunConfig:
    """The validated configuration of a run, with defaults filled in.

    Objects that need no data are made once, when the configuration is read, so that errors name the
    object's place in the configuration. Two configurations with the same values are equal.

    Attributes:
        data: the data set.
        model: the model.
        method: the main method.
        against: the methods that are compared with it.
        local: the settings of local training.
        scenario: participation of clients, such as drop-outs and late arrivals.
        run: the plan, evaluation and compute resources.
        shift: the shift of the data; None: no shift.
        option_entries: registry entries of the options that apply to all methods, by section.
        options: the objects of these options, by section.
        measures: the user's measures, with their functions.
        metrics: metrics for Prometheus; None: none. They are not part of the description.
    """

    data: Entry
    model: Entry
    method: Entry
    against: tuple[Entry, ...]
    local: LocalSection
    scenario: Population
    run: RunSettings
    shift: Entry | None
    option_entries: dict[str, Entry]
    options: dict[str, Option] = field(compare=False, repr=False)
    measures: tuple[Measure, ...] = field(compare=False, repr=False)
    metrics: MetricsSettings | None = field(default=None, compare=False)

    @property
    def methods(self) -> tuple[Entry, ...]:
        """The main method and the methods that are compared with it."""
        return (self.method, *self.against)

    @property
    def work(self) -> LocalTraining:
        """The settings of local training."""
        return self.local.work

    @property
    def draws_data(self) -> bool:
        """Whether each seed of the run has separate data: with ``data.seed = "run"``, or an option
        such as label noise with ``seed = "run"``."""
        return self.data.drawn_by_run or any(one.drawn_by_run for one in self.options.values())

    def make_data(self, seed: int | None = None) -> FederatedData:
        """Make the data.

        Args:
            seed: the run's seed, which draws the data if ``data.seed`` is "run"; None: the seed of
                this configuration.
        """
        return self.data.drawn(self.run.seed if seed is None else seed).make()

    def description(self) -> Description:
        """The configuration as TOML values. ``from_dict`` reads them."""
        sections: dict[str, Any] = {
            "data": self.data.values,
            "model": self.model.values,
            "method": self.method.values,
            "local": self.local.values,
            "scenario": toml_values(self.scenario),
            "shift": self.shift.values if self.shift else {},
            "run": self.run.values,
        }
        sections |= {name: entry.values for name, entry in self.option_entries.items()}
        return Description({name: values for name, values in sections.items() if values})


def demo_for(overrides: Sequence[str]) -> dict[str, Values]:
    """The settings of the demonstration that ``fedkin run`` uses without a file. If an override
    sets ``data.path``, its data are the user's file, and its model is the default for them; with
    ``model.backbone`` or ``model.torch`` its model is the user's."""
    given = {parse_override(text)[:2] for text in overrides}
    own = {section for section, key in given if (section, key) in _OF_USER}
    if "data" in own:
        own.add("model")
    return {name: {} if name in own else values for name, values in DEMO.items()}


def load(path: Path | None = None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the configuration of a run from a TOML file (or the demonstration's settings), and apply
    overrides ``section.key=value``. A section [compare] is ignored.

    Raises ConfigError if the file is missing, empty or not TOML, a section or key is unknown, or a
    value has the wrong type or range.
    """
    raw, place = read(path, overrides, demo_for(overrides), DECLARED)
    if not any(parse_override(text).section == "compare" for text in overrides):
        raw.pop("compare", None)
    return from_dict(raw, place)


def from_dict(raw: Mapping[str, Any], place: Place = str) -> RunConfig:
    """Validate a configuration, and make its objects that need no data.

    Args:
        raw: the sections of the configuration.
        place: function that turns ``section.key`` into its name in messages, such as
            ``FILE: section.key``.
    """
    own = own_sections(raw, SECTIONS)
    sections = Sections(raw, (*SECTIONS, *own), place)
    default_data = registry.default_dataset(sections["data"])
    method = sections.resolve("method", "method", registry.methods(), METHOD)
    run = sections.validate("run", RunSettings)
    against = resolve_against(run.against, method, sections)
    measure_entries, measures = user_measures.resolved(run.measures or (), place("run.measures"))
    option_entries = resolve_options(sections, (*OPTIONS, *own))
    data = sections.resolve("data", "data set", registry.datasets(), default_data)
    config = RunConfig(
        data=data,
        model=resolve_model(sections["model"], sections.place_in("model"), known_task_type(data)),
        method=method,
        against=against,
        local=sections.validate("local", LocalSection),
        scenario=make_population(sections),
        run=described_run(run, against, measure_entries),
        shift=_shift(sections) if "shift" in sections else None,
        option_entries=option_entries,
        options=made_options(sections, option_entries),
        measures=measures,
        metrics=metrics_settings(sections),
    )
    if (task_type := known_task_type(data)) is not None:
        check_goals(run, task_type, sections.place_in("run"))
    _make_objects(sections, config)
    return config


def _make_objects(sections: Sections, config: RunConfig) -> None:
    """Make the objects of a configuration, so that an error names their section. They are
    cached."""
    sections.construct("local", lambda: config.work, LocalSection)
    sections.construct("method", lambda: config.method.made)
    if config.shift is not None:
        shift = config.shift
        sections.construct("shift", lambda: shift.made)
    sections.construct("run.against", lambda: [entry.made for entry in config.against])


def make_population(sections: Sections) -> Population:
    """The population of clients from the section [scenario]."""
    options = sections.validate("scenario", options_schema(Population))
    return sections.construct("scenario", lambda: Population(**dict(options)), Population)


def _shift(sections: Sections) -> Entry:
    """The registry entry of the section [shift]."""
    place = sections.place_in("shift")
    if "name" not in sections["shift"]:
        raise ConfigError(f"{place('name')}: is required; known: {', '.join(registry.shifts())}")
    return resolve("shift", registry.shifts(), sections["shift"], place)


def described_run(
    run: RunSettings, against: Sequence[Entry], measures: Sequence[Values]
) -> RunSettings:
    """The settings [run] in which names of compared methods and measures are replaced by tables
    with all their options.

    Args:
        run: the settings as read.
        against: entries of the methods that are compared with the main method.
        measures: entries of the user's measures.
    """
    return replace(
        run, against=[entry.values for entry in against], measures=list(measures) or None
    )


def resolve_against(
    names: Sequence[str | Values], method: Entry, sections: Sections
) -> tuple[Entry, ...]:
    """The compared methods in ``run.against``, with the options that they inherit from [method].

    Args:
        names: names or tables of the methods. An entry that equals the main method is skipped.
        method: the main method.
        sections: the sections of the configuration. Compared methods inherit the options in
            [method] that mean the same for them (``inherited_options``).
    """
    place = sections.place("run.against")
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in names]
    for entry in entries:
        if "name" not in entry:
            raise ConfigError(
                f"{place}: expected a method's name or a table with a name, got {entry!r}; for "
                'example against = ["fedavg", {name = "fedprox", mu = 0.1}]'
            )
    entries = carry_over({**sections["method"], "name": method.name}, entries)
    full = [
        resolve("method", registry.methods(), entry, lambda key: f"{place}: {key}")
        for entry in entries
    ]
    resolved_names = [entry.name for entry in full]
    for name in resolved_names:
        if resolved_names.count(name) > 1:
            raise ConfigError(f"{place}: method {name!r} is named twice; remove one")
    others = tuple(entry for entry in full if entry != method)
    if method.name in [entry.name for entry in others]:
        raise ConfigError(
            f"{place}: {method.name!r} is the main method and cannot be listed here with other "
            "options, since both results would have the same folder; make a separate run with "
            "these options"
        )
    return others
