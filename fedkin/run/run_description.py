"""Descriptions of runs that are started from Python. They hold names and settings of the data,
model, options and so on as TOML values, as a configuration file does."""

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
    """The description of a run that is started from Python, in the form of a configuration file.

    Args:
        data: the run's data, before any option has changed them.
        model: the model.
        local: the settings of local training.
        scenario: participation of clients.
        shift: the shift of the data; None: no shift.
        run: the section [run]: rounds, cohort, seed, evaluation and compute settings.
        options: options for all methods, by section.
    """
    split = {} if data.validation is None else {"validation_samples": len(data.validation.rows)}
    of_model = model.description() if isinstance(model, ModelWithWorkers) else of_backbone(model)
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


def of_backbone(model: AnyModel) -> Values:
    """Name, digest and number of bytes of the frozen arrays of a JAX model; empty without any."""
    frozen = getattr(model, "frozen", None)
    if frozen is None:
        return {}
    return {f"backbone_{name}": value for name, value in frozen.facts().items()}


def pinned_backbone(model: AnyModel) -> Values:
    """The digest of a model's backbone, as an option of [model]: a run of a configuration can then
    be resumed and loaded with this backbone only. Empty for other models."""
    frozen = getattr(model, "frozen", None)
    return {} if frozen is None else {"backbone_digest": frozen.backbone_digest}


def method_name(method: Method) -> str:
    """A method's name in configurations; the lower-case class name for a user's method."""
    return _name(method, registry.methods())


def option_values(options: Mapping[str, Option]) -> dict[str, Values]:
    """The sections of a description with the name and settings of each option.

    Raises:
        ConfigError: a user's option has the name of a section that every configuration has.
    """
    values: dict[str, Values] = {}
    for section, option in options.items():
        if section in CONFIGURATION and section not in SECTIONS:
            raise ConfigError(
                f"options: {type(option).__name__} cannot use the section {section!r}, which the "
                "configuration of every run has; give the option another section name"
            )
        known = known_values(section) if section in SECTIONS else {}
        values[section] = {"name": _name(option, known), **plain_values(option)}
    return values


def shift_name(shift: Shift) -> str:
    """A shift's name in configurations; the lower-case class name for a user's shift."""
    return _name(shift, registry.shifts())


def _name(instance: Any, known: registry.Registry) -> str:
    """The name under which an instance's class is registered; the lower-case class name if it is
    not registered."""
    names = {kind: name for name, kind in known.items()}
    return names.get(type(instance), type(instance).__name__.lower())


def label_names(data: FederatedData) -> Values:
    """The entry ``label_names`` for data with text labels, so that a resumed run numbers the labels
    in the same way; empty for other data."""
    return {} if data.label_names is None else {"label_names": list(data.label_names)}


def plain_values(instance: Any) -> Values:
    """The fields of a dataclass as TOML values. A value that TOML cannot store is replaced by its
    ``repr``."""
    if not dataclasses.is_dataclass(instance):  # a user's shift need not be a dataclass
        return {"is": f"{type(instance).__module__}.{type(instance).__qualname__}"}
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}
    stored = json.loads(json.dumps(plain_lists(values), default=_plain))
    return {name: value for name, value in stored.items() if value is not None}


def _plain(value: Any) -> Any:
    """Convert a value that JSON cannot store: a dataclass to a table of the fields that are not
    None, any other value to its ``repr``."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    set_fields = {f.name: plain_lists(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return {name: entry for name, entry in set_fields.items() if entry is not None}
