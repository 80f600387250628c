"""Checks of ``simulate``'s arguments. A name or a class in place of an instance raises an error
with the correct form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkin.config import registry
from fedkin.config.plan import Compute, Scoring
from fedkin.core.errors import ConfigError, DataError, FedkinError, MethodError, ModelError, unknown
from fedkin.core.method import Method
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.options.base import Option
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift

# Types of other arguments that users give as a method by mistake.
_ARGUMENTS = {"scenario": Population, "shift": Shift, "local": LocalTraining}
_SETTINGS = {"scoring": Scoring, "compute": Compute, "local": LocalTraining, "scenario": Population}


def check_made(methods: Iterable[Any], data: Any, model: Any, shift: Any = None) -> None:
    """Check that methods, data, model and shift are objects, not names or classes.

    Args:
        methods: the main method and the compared methods.
        data: the data of the run.
        model: the model of the run.
        shift: the shift of the data; None: no shift.

    Raises:
        ConfigError, MethodError, DataError, ModelError: a name or a class was given. The message
            has the correct form, and suggests a similar name if the name is misspelt.
    """
    for method in methods:
        check_method(method)
    if isinstance(data, str):
        raise _named(
            DataError,
            "data set",
            name=data,
            known=registry.datasets(),
            made=f"fk.data.{data}(clients=...)",
        )
    if not isinstance(data, FederatedData):
        raise DataError(
            "data must be federated data, such as fk.data.digits(clients=20), fk.data.load(path) "
            f"or fk.data.from_arrays(x, y, clients=...), got {type(data).__name__}"
        )
    if isinstance(model, str):
        raise _named(
            ModelError,
            "model",
            name=model,
            known=registry.models(),
            made=f"fk.models.{model}(data)",
        )
    if shift is not None and (isinstance(shift, type) or not isinstance(shift, Shift)):
        raise ConfigError(f"shift must be an instance of a shift, such as SwapAll(), got {shift!r}")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings of a wrong type.

    Args:
        settings: the given settings by argument name; None: not given.
    """
    for name, value in settings.items():
        kind = _SETTINGS[name]
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{name} must be an instance, fk.{kind.__name__}(...), got {value!r}")


def check_list(name: str, value: Any, example: str) -> None:
    """Raise ConfigError for a value that is not a list.

    Args:
        name: the argument's name.
        value: the argument's value.
        example: an example of a list entry, for the message.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} must be a list, {name}=[{example}], got {value!r}")


def check_method(method: Any) -> None:
    """Raise MethodError unless the value is an instance of a method. For a name, a class or an
    option, the message shows the correct form."""
    if isinstance(method, str):
        raise _named(
            MethodError,
            "method",
            name=method,
            known=registry.methods(),
            made=f"fk.{registry.method_title(method)}()",
        )
    if isinstance(method, type):
        raise MethodError(
            f"a method must be an instance, fk.{method.__name__}(...), got the class "
            f"{method.__name__}"
        )
    if isinstance(method, Method):
        return
    name = type(method).__name__
    given = ""
    for argument, kind in _ARGUMENTS.items():
        if isinstance(method, kind):
            given = f"{argument}=fk.{name}(...)"
    if isinstance(
        method, Option
    ):  # also server optimisers, which look like shifts: both have `step`
        given = f"options=[fk.{name}(...)]"
    if given:
        raise MethodError(
            f"{name} is not a method but an option; pass it as {given}, together "
            "with a method such as fk.FedAvg()"
        )
    raise MethodError(
        "expected a method such as fk.FedAvg(), i.e. an object with the functions init, round and "
        f"place; got {name}"
    )


def _named(
    error: type[FedkinError], kind: str, name: str, known: Iterable[str], made: str
) -> FedkinError:
    """The error for an argument that is a name instead of an instance (e.g. of a method). If the
    name is unknown, the error suggests a similar one."""
    if name not in known:
        return error(unknown(kind, name, known))
    return error(f"a {kind} must be an instance, {made}, got the name {name!r}")
