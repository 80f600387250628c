"""How a run started from Python is described: names and settings of what it is made of, as TOML
holds them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from fedkin.config import registry
from fedkin.config.description import Description
from fedkin.config.option_registry import known_values
from fedkin.config.plan import RunSettings
from fedkin.config.run import SECTIONS as CONFIGURATION
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.core.plain import plain_lists
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
from fedkin.simulation.workers import AnyModel, ModelWithWorkers


def description_of(
    *,
    data: FederatedData,
    model: AnyModel,
    local: LocalTraining,
    scenario: Population,
    shift: Shift | None,
    run: RunSettings,
    options: Mapping[str, Option],
) -> Description:
    """What a configuration would say of a run that is started from Python.

    Args:
        data: its data, before any option has changed them.
        model: what is trained.
        local: the settings of local training.
        scenario: what clients do besides training.
        shift: how the data shift; None where they do not.
        run: the plan, how it is scored, and what computes it.
        options: of all methods, by section.
    """
    split = {} if data.validation is None else {"validation_samples": len(data.validation.rows)}
    of_model = model.description() if isinstance(model, ModelWithWorkers) else {}
    sections: dict[str, Values] = {
        "python": {"note": "started from Python; simulate(..., out=, resume=True) goes on with it"},
        "data": {"name": data.name, "clients": data.clients, **split, **label_names(data)},
        "model": {"name": model.name, "parameters": model.spec.parameters, **of_model},
        "local": {
            name: value for name, value in plain_values(local).items() if name in local.settings()
        },
        "scenario": plain_values(scenario),
        "run": run.values,
    }
    if shift is not None:
        sections["shift"] = {"name": shift_name(shift), **plain_values(shift)}
    return Description(sections | option_values(options))


def method_name(method: Method) -> str:
    """What configurations call a method; the lower-case name of the class for a user's own."""
    return _name(method, registry.methods())


def option_values(options: Mapping[str, Option]) -> dict[str, Values]:
    """The sections of a description that name options of all methods.

    Raises:
        ConfigError: an option whose section is that of something else.
    """
    values: dict[str, Values] = {}
    for section, option in options.items():
        if section in CONFIGURATION and section not in SECTIONS:
            raise ConfigError(
                f"options: {type(option).__name__} cannot have the section {section!r}, which a "
                "run has"
            )
        known = known_values(section) if section in SECTIONS else {}
        values[section] = {"name": _name(option, known), **plain_values(option)}
    return values


def shift_name(shift: Shift) -> str:
    """What configurations call a shift; the lower-case name of the class for a user's own."""
    return _name(shift, registry.shifts())


def _name(instance: Any, known: registry.Registry) -> str:
    names = {kind: name for name, kind in known.items()}
    return names.get(type(instance), type(instance).__name__.lower())


def label_names(data: FederatedData) -> Values:
    """What a description says of the classes of data whose labels are names: ``label_names``, as
    the option of a file has them, so that a run that is resumed numbers them alike."""
    return {} if data.label_names is None else {"label_names": list(data.label_names)}


def plain_values(instance: Any) -> Values:
    """A dataclass's fields as TOML can hold them; whatever TOML has no word for stands as its
    ``repr``."""
    if not dataclasses.is_dataclass(instance):  # a user's own shift needs no more than a step
        return {"is": f"{type(instance).__module__}.{type(instance).__qualname__}"}
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}
    stored = json.loads(json.dumps(plain_lists(values), default=_plain))
    return {name: value for name, value in stored.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value that JSON does not have: a dataclass by the fields that are set, all else as its
    ``repr``."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    set_fields = {f.name: plain_lists(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return {name: entry for name, entry in set_fields.items() if entry is not None}
