"""The configuration of an experiment: a TOML file, ``section.key=value`` on top, and what can be built from it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from fedkin.config import registry as choices
from fedkin.config.plan import Plan
from fedkin.config.schema import Section, Values, checked, choose, plain, schema
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.world import LocalTraining
from fedkin.scenarios.population import Population

Positive = Annotated[int, Field(ge=1)]

# What `fedkin run` does when nothing is said: real handwritten digits, clustered beside plain averaging.
DEMO: dict[str, Values] = {
    "data": {"name": "digits"},
    "model": {"name": "mclr"},
    "method": {"name": "fedgroup"},
    "run": {"against": ["fedavg"]},
}


class Local(Section):
    """[local]: what a client does with a model that it trains."""

    epochs: Positive = 10
    batch_size: Positive = 10
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    optimizer: str = "sgd"
    momentum: float = 0.0


class Rounds(Section):
    """[run]: how long, with whom, from which seed; beside which other methods; and how often to look."""

    rounds: Positive = 50
    cohort: Positive = 10
    seed: Annotated[int, Field(ge=0)] = 0
    seeds: Positive | None = None  # repeat with so many seeds, from ``seed`` on, and compare statistically
    against: list[str | Values] = Field(default_factory=list)
    target: Annotated[float, Field(gt=0, le=1)] | None = None  # accuracy, for rounds to target
    evaluate_every: Annotated[int, Field(ge=0)] = 1  # 0: only after the last round
    checkpoint_every: Positive = 10
    selection: Literal["uniform", "round_robin"] = "uniform"
    devices: Positive | None = None
    clients_per_batch: Positive | None = None


@dataclass(frozen=True)
class Config:
    """A checked configuration: every option known, of the right type, and spelled out with its default."""

    data: Values
    model: Values
    method: Values
    local: Local
    scenario: Values
    run: Rounds
    shift: Values = field(default_factory=dict)  # empty: data stay where they are

    @property
    def against(self) -> list[Values]:
        """The methods that are run beside the main one, spelled out."""
        return [entry for entry in self.run.against if not isinstance(entry, str)]

    @property
    def plan(self) -> Plan:
        run = self.run
        return Plan(run.rounds, run.cohort, run.seed, run.evaluate_every, run.checkpoint_every, run.selection)

    @property
    def work(self) -> LocalTraining:
        return LocalTraining(**self.local.model_dump())

    def description(self) -> dict[str, Any]:
        """The configuration as TOML holds it; ``from_dict`` reads it back."""
        sections = {"data": self.data, "model": self.model, "method": self.method}
        sections |= {"local": plain(self.local), "scenario": self.scenario, "shift": self.shift, "run": plain(self.run)}
        return {name: entries for name, entries in sections.items() if entries}


def load(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file (or the demonstration's settings) with ``section.key=value`` on top. What its [compare] says is
    for ``fedkin compare`` only, and not looked at.

    Raises ConfigError: no such file, an empty one, not TOML, unknown section or key, wrong type or value; always with
    its place.
    """
    raw: dict[str, Any] = read_toml(path) if path else {name: dict(entries) for name, entries in DEMO.items()}
    if not raw:
        raise ConfigError(f"{path}: says nothing; expected sections such as [data], [method] and [run]")
    raw.pop("compare", None)
    ours = override(raw, overrides, path)
    return from_dict(raw, lambda dotted: dotted if path is None or dotted in ours else f"{path}: {dotted}")


def override(raw: dict[str, Any], overrides: Sequence[str], path: Path | None) -> set[str]:
    """Put ``section.key=value`` on top of what a file says; the keys that were given so."""
    ours = set()
    for text in overrides:
        section, key, value = parse_override(text)
        if not isinstance(raw.setdefault(section, {}), dict):
            raise ConfigError(f"{path}: {section}: expected a section, got {raw[section]!r}")
        raw[section][key] = value
        ours.add(f"{section}.{key}")
    return ours


def from_dict(raw: dict[str, Any], where: Callable[[str], str] = str) -> Config:
    """Check a configuration that was read already; ``where`` turns ``section.key`` into a place."""
    known = ("data", "model", "method", "local", "scenario", "shift", "run")
    for name, entries in raw.items():
        if name not in known:
            raise ConfigError(f"{where(name)}: {unknown('section', name, known)}")
        if not isinstance(entries, dict):
            raise ConfigError(f"{where(name)}: expected a section, got {entries!r}")
    section = {name: raw.get(name, {}) for name in known}

    def place(name: str) -> Callable[[str], str]:
        return lambda key: where(f"{name}.{key}")

    method = named("method", choices.methods(), {"name": "fedgroup"} | section["method"], place("method"))
    run = checked(Rounds, section["run"], place("run"))
    config = Config(
        data=named("data set", choices.datasets(), {"name": "digits"} | section["data"], place("data")),
        model=named_model(section["model"], place("model")),
        method=method,
        local=checked(Local, section["local"], place("local")),
        scenario=plain(checked(schema(Population), section["scenario"], place("scenario"))),
        run=run.model_copy(update={"against": against(run.against, method, where("run.against"))}),
        shift=_shift(raw.get("shift"), place("shift")),
    )
    _refuse_impossible(config, where)
    return config


def _shift(values: Values | None, where: Callable[[str], str]) -> Values:
    """The shift section, spelled out; empty where there is none."""
    if values is None:
        return {}
    if "name" not in values:
        raise ConfigError(f"{where('name')}: is required; known: {', '.join(choices.shifts())}")
    return named("shift", choices.shifts(), values, where)


def named(kind: str, registry: choices.Registry, values: Values, where: Callable[[str], str]) -> Values:
    """A section that names an entry of a registry, with all the entry's options spelled out."""
    call = choose(kind, registry, values["name"], where("name"))
    options = {key: value for key, value in values.items() if key != "name"}
    return {"name": values["name"], **plain(checked(schema(call, choices.NOT_OPTIONS), options, where, ["name"]))}


def named_model(values: Values, where: Callable[[str], str]) -> Values:
    """The model section, spelled out; where it has the place of a PyTorch module, it needs no name."""
    usual = "torch" if "torch" in values else "mclr"
    return named("model", choices.models(), {"name": usual} | values, where)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary.

    Raises ConfigError: it is not there, cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def parse_override(text: str) -> tuple[str, str, Any]:
    """``section.key=value`` in its three parts; the value as TOML has it, else as the text it is.

    Raises ConfigError for anything else.
    """
    dotted, equals, value = text.partition("=")
    section, dot, key = dotted.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(f"expected section.key=value, got {text!r}")
    return section, key, parse_value(value)


def parse_value(text: str) -> Any:
    """A TOML value (7, 0.5, true, [1, 2], "seven"), or the text itself where it is none."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()


def against(
    entries: Sequence[str | Values], method: Values, where: str, registry: choices.Registry | None = None
) -> list[Values]:
    """The methods to run beside the main one: each spelled out, none twice, the main one itself left out."""
    full = []
    for entry in entries:
        values = {"name": entry} if isinstance(entry, str) else entry
        if "name" not in values:
            raise ConfigError(f"{where}: expected a method's name or a table with one, got {entry!r}")
        full.append(named("method", registry or choices.methods(), values, lambda key: f"{where}: {key}"))
    names = [entry["name"] for entry in full]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: method {name!r} is named twice")
    others = [entry for entry in full if entry != method]
    if method["name"] in [entry["name"] for entry in others]:
        raise ConfigError(
            f"{where}: {method['name']!r} is the main method, and runs are told apart by their method's name; "
            "give its other options a run of their own"
        )
    return others


def _refuse_impossible(config: Config, where: Callable[[str], str]) -> None:
    """Make what can be made without data, so that its own checks speak before anything else happens."""
    makers: dict[str, Callable[[], Any]] = {
        "local": lambda: config.work,
        "method": lambda: choices.make(choices.methods(), config.method),
        "scenario": lambda: choices.make_population(config.scenario),
        "shift": lambda: choices.make(choices.shifts(), config.shift) if config.shift else None,
        "run.against": lambda: [choices.make(choices.methods(), entry) for entry in config.against],
    }
    for place, maker in makers.items():
        try:
            maker()
        except FedkinError as error:
            raise ConfigError(f"{where(place)}: {error}") from error
