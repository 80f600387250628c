"""The configuration of a run: the sections of its TOML file, and what can be built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from fedkin.config import own_measures, registry
from fedkin.config.engine import check_engine, check_sums
from fedkin.config.loader import Sections, parse_override, read
from fedkin.config.option_registry import makers, own_sections, resolve_options
from fedkin.config.plan import Plan, Selection
from fedkin.config.registry import resolve, resolve_model
from fedkin.config.schema import NotNegative, Place, Positive, Section, Share, Values, options_schema, toml_values
from fedkin.config.shared_options import carry_over
from fedkin.core.errors import ConfigError
from fedkin.core.training import LocalTraining, without_unused
from fedkin.options import SECTIONS as OPTIONS
from fedkin.scenarios.population import Population

SECTIONS = ("data", "model", "method", *OPTIONS, "local", "scenario", "shift", "run")

# What `fedkin run` does without a file: real handwritten digits, clustered beside plain averaging.
DEMO: dict[str, Values] = {
    "data": {"name": "digits"},
    "model": {"name": "mclr"},
    "method": {"name": "fedgroup"},
    "run": {"against": ["fedavg"]},
}


class LocalSection(Section):
    """[local]: what a client does with a model that it trains."""

    epochs: Positive = 10
    batch_size: Positive = 10
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    optimizer: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    clip_norm: float | None = None
    schedule: str | Values | None = None  # of lr over rounds: a name, or a table of options (core.schedule)
    step_schedule: str | Values | None = None  # of lr over the local steps
    label_smoothing: float = 0.0
    class_weights: str | list[float] | None = None  # "balanced", or one for each class
    precision: str | None = None  # "bfloat16"; float32 without

    @property
    def values(self) -> Values:
        """As TOML holds them; options of later versions only where they are used."""
        return without_unused(toml_values(self))

    @property
    def work(self) -> LocalTraining:
        """The same for methods. Raises ConfigError for what cannot be."""
        return LocalTraining.from_settings(self.model_dump())


class RunSection(Section):
    """[run]: how long, with how many clients, from which seed, against which other methods, and how often evaluated."""

    rounds: Positive = 50
    cohort: Positive = 10
    seed: NotNegative = 0
    seeds: Positive | None = None  # repeat with so many seeds, from ``seed`` on, and compare statistically
    against: list[str | Values] = Field(default_factory=list)
    target: Share | None = None  # accuracy, for rounds to target
    evaluate_every: NotNegative = 1  # rounds; 0: only after the last
    checkpoint_every: Positive = 10
    selection: Selection = "uniform"
    global_model: bool = False  # score the mean of the cluster models, too
    patience: Positive | None = None  # stop after so many rounds without a better score on validation samples
    until: Share | None = None  # stop at the first complete round with this score
    evaluate_clients: Positive | None = None  # scored in a round, but for the last: a sample by cluster; None: all
    sample_at_end: bool = False  # score no more than these after the last round, either
    devices: Positive | None = None
    clients_per_batch: Positive | None = None
    engine: str | None = None  # "ray", or "ray:" and a cluster's address; None: this process
    actors: Positive | None = None  # of Ray; None: one on each machine, on one machine one on each core
    sum_by_actor: bool = False  # each actor sends the sum of its clients' updates: less traffic, other last bits
    measures: list[str | Values] | None = None  # of the user's own: "module:Measure"

    @model_validator(mode="after")
    def _actors_that_sum(self) -> RunSection:
        check_sums(self.sum_by_actor, self.engine)
        return self

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str | None) -> str | None:
        return check_engine(value)

    @field_validator("against", "measures", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        """``run.against=fedavg,ifca`` on the command line is a list of names; so is ``run.measures=a:B,a:C``."""
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @property
    def others(self) -> list[Values]:
        """The methods that are compared with the main one, spelled out."""
        return [entry for entry in self.against if not isinstance(entry, str)]

    @property
    def plan(self) -> Plan:
        """The part that the loop of rounds needs."""
        intervals = self.evaluate_every, self.checkpoint_every
        optional = {name: getattr(self, name) for name in ("patience", "until", "evaluate_clients", "sample_at_end")}
        return Plan(self.rounds, self.cohort, self.seed, *intervals, self.selection, self.global_model, **optional)


@dataclass(frozen=True)
class RunConfig:
    """A validated configuration: every option known, of the right type, and spelled out with its default."""

    data: Values
    model: Values
    method: Values
    local: LocalSection
    scenario: Values
    run: RunSection
    shift: Values = field(default_factory=dict)  # empty: the data do not shift
    options: dict[str, Values] = field(default_factory=dict)  # of all methods, by section

    @property
    def against(self) -> list[Values]:
        """The methods that are compared with the main one, spelled out."""
        return self.run.others

    @property
    def plan(self) -> Plan:
        """How long the run is, with how many clients."""
        return self.run.plan

    @property
    def work(self) -> LocalTraining:
        """What a client does with a model that it trains."""
        return self.local.work

    def description(self) -> dict[str, Any]:
        """The configuration as TOML holds it; ``from_dict`` reads it back."""
        local, run = self.local.values, toml_values(self.run)
        sections = {"data": self.data, "model": self.model, "method": self.method, "local": local}
        sections |= {"scenario": self.scenario, "shift": self.shift, "run": run}
        return {name: entries for name, entries in (sections | self.options).items() if entries}


def demo_for(overrides: Sequence[str]) -> dict[str, Values]:
    """The demonstration, on the user's own file where an override has its path."""
    own = any(parse_override(text)[:2] == ("data", "path") for text in overrides)
    return {**DEMO, "data": {}} if own else DEMO


def load(path: Path | None = None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file (or the demonstration's settings) with ``section.key=value`` on top. Its [compare] is for
    ``fedkin compare`` only, and ignored.

    Raises ConfigError: no such file, an empty one, not TOML, unknown section or key, wrong type or value; always with
    its place.
    """
    raw, place = read(path, overrides, demo_for(overrides))
    if not any(parse_override(text).section == "compare" for text in overrides):
        raw.pop("compare", None)
    return from_dict(raw, place)


def from_dict(raw: dict[str, Any], place: Place = str) -> RunConfig:
    """Validate a configuration that was read already; ``place`` turns ``section.key`` into where it was read."""
    own = own_sections(raw, SECTIONS)
    sections = Sections(raw, (*SECTIONS, *own), place)
    method = sections.resolve("method", "method", registry.methods(), "fedgroup")
    config = RunConfig(
        data=sections.resolve("data", "data set", registry.datasets(), registry.default_dataset(sections["data"])),
        model=resolve_model(sections["model"], sections.place_in("model")),
        method=method,
        local=sections.validate("local", LocalSection),
        scenario=toml_values(sections.validate("scenario", options_schema(Population))),
        run=resolve_measures(
            resolve_against(
                sections.validate("run", RunSection), method, place("run.against"), written=sections["method"]
            ),
            place("run.measures"),
        ),
        shift=_shift(sections) if "shift" in sections else {},
        options=resolve_options(sections, (*OPTIONS, *own)),
    )
    sections.construct(
        {
            "local": lambda: config.work,
            "method": lambda: registry.make(registry.methods(), config.method),
            "scenario": lambda: registry.make_population(config.scenario),
            **makers(config.options),
            "shift": lambda: config.shift and registry.make(registry.shifts(), config.shift),
            "run.against": lambda: [registry.make(registry.methods(), entry) for entry in config.against],
        }
    )
    return config


def _shift(sections: Sections) -> Values:
    """The shift section, spelled out."""
    place = sections.place_in("shift")
    if "name" not in sections["shift"]:
        raise ConfigError(f"{place('name')}: is required; known: {', '.join(registry.shifts())}")
    return resolve("shift", registry.shifts(), sections["shift"], place)


def resolve_against(run: RunSection, method: Values, place: str, written: Values) -> RunSection:
    """[run] with the methods in ``against`` spelled out, none twice, the main one left out.

    Args:
        run: the section.
        method: the main method, spelled out.
        place: where ``run.against`` was read.
        written: [method] as it was written; what it gives goes for the others too (``shared_options``).
    """
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in run.against]
    for entry in entries:
        if "name" not in entry:
            raise ConfigError(f"{place}: expected a method's name or a table with one, got {entry!r}")
    entries = carry_over({**written, "name": method["name"]}, entries)
    full = [resolve("method", registry.methods(), entry, lambda key: f"{place}: {key}") for entry in entries]
    names = [entry["name"] for entry in full]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{place}: method {name!r} is named twice")
    others = [entry for entry in full if entry != method]
    if method["name"] in [entry["name"] for entry in others]:
        raise ConfigError(
            f"{place}: {method['name']!r} is the main method, and runs are named after their method; "
            "give its other options a run of their own"
        )
    return run.model_copy(update={"against": others})


def resolve_measures(run: RunSection, place: str) -> RunSection:
    """[run] with the user's own measures spelled out.

    Args:
        run: the section.
        place: where ``run.measures`` was read.

    Raises ConfigError for what is no measure, and for a name that is taken.
    """
    if not run.measures:
        return run.model_copy(update={"measures": None})
    return run.model_copy(update={"measures": own_measures.resolved(run.measures, place)[0]})
