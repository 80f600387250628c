"""A user's methods: named by their import path, ``package.module:Class``, or given as instances.

A class defined in a script, a notebook or a function has such a name too, but only its own process
can find it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import operator
import os
import sys
from collections.abc import Iterable
from typing import Any

from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain
from fedkin.options.base import Option

STEPS = ("init", "round", "place")
_OF_THIS_PROCESS: dict[str, type] = {}  # classes that no other process can import, by name


def is_own(name: str) -> bool:
    """Whether a name belongs to a user's method, not to one of the library's."""
    return ":" in name


def title(name: str) -> str:
    """The name of the class."""
    return name.rpartition(":")[2].rpartition(".")[2]


def of_this_process(name: str) -> bool:
    """Whether no other process can import it."""
    return name.startswith("__main__:") or "<locals>" in name


def only_here(name: str) -> bool:
    """Whether this process alone finds it: a class of a script, a notebook or a function."""
    return of_this_process(name) or name in _OF_THIS_PROCESS


def resume_note(names: Iterable[str]) -> str:
    """The note in a comparison's folder about methods that only its own process can find; empty
    without such methods."""
    local = [name for name in names if only_here(name)]
    return (
        f"{', '.join(local)}: defined in a script, a notebook or a function; go on from there with "
        "compare(..., resume=True), or put the class into a module and start again in a new folder"
        if local
        else ""
    )


def imported(name: str) -> type:
    """The method named ``package.module:Class``, searched for as by ``python -m``, from the current
    folder.

    Raises ConfigError: there is none, importing it failed, or it is not a method.
    """
    if name in _OF_THIS_PROCESS:
        return _OF_THIS_PROCESS[name]
    candidate = found(name)
    _check(candidate, name)
    return candidate


def imported_option(name: str) -> type[Option]:
    """The option named ``package.module:Class``, searched for as by ``imported``.

    Raises ConfigError: there is none, importing it failed, or it is not an option.
    """
    candidate = found(name)
    if not (
        isinstance(candidate, type)
        and issubclass(candidate, Option)
        and dataclasses.is_dataclass(candidate)
    ):
        raise ConfigError(
            f"{name!r} is no option: expected a frozen dataclass that derives from fk.Option; see "
            "docs/write-an-option.md"
        )
    return candidate


def found(name: str) -> Any:
    """The object named ``package.module:Name``, searched for as by ``python -m``, from the current
    folder.

    Raises ConfigError: there is none, or importing it failed.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute) or module.startswith("."):
        raise ConfigError(f"expected package.module:Class, got {name!r}")
    holder = sys.modules["__main__"] if module == "__main__" else _module(module, name)
    candidate: Any = functools.reduce(
        lambda one, part: getattr(one, part, None), attribute.split("."), holder
    )
    if candidate is None and of_this_process(name):
        raise ConfigError(
            f"{name!r} was defined in a script, a notebook or a function, where only its own "
            "process finds it: go on there with resume=True, or put the class into a module, name "
            "it module:Class and start a new folder"
        )
    if candidate is None:
        raise ConfigError(f"{name!r}: module {module!r} has no {attribute!r}")
    return candidate


def _module(module: str, name: str) -> Any:
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()  # the file may be newer than this process
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        where = f"there is no module {error.name!r} in {os.getcwd()} or on Python's path"
        raise ConfigError(
            f"{name!r}: {where}; start fedkin beside it, or set PYTHONPATH"
        ) from error
    except Exception as error:  # whatever the user's own file raises
        raise ConfigError(
            f"{name!r}: importing it failed: {type(error).__name__}: {error}"
        ) from error


def _check(candidate: Any, name: str) -> None:
    """Raise ConfigError for what is not a method class, and say what it lacks."""
    if not isinstance(candidate, type):
        raise ConfigError(
            f"{name!r}: expected the class of a method, got {type(candidate).__name__}"
        )
    lacking = [
        f"the step {step!r}" for step in STEPS if not callable(getattr(candidate, step, None))
    ]
    lacking += (
        [] if dataclasses.is_dataclass(candidate) else ["the decorator @dataclass(frozen=True)"]
    )
    if lacking:
        raise ConfigError(
            f"{name!r} is no method: it lacks {', '.join(lacking)}; see docs/write-a-method.md"
        )


def entry_of(method: Any, names: dict[type, str]) -> Values:
    """The configuration entry of a method instance: the import path of its class, and all its
    fields.

    Args:
        method: an instance.
        names: names of the library's classes.

    Raises:
        ConfigError: not a method, or a field has a value that TOML cannot hold.
    """
    kind = type(method)
    if isinstance(method, type):
        raise ConfigError(
            f"expected a method that was made, such as {method.__name__}(), got the class itself"
        )
    name = names.get(kind, f"{kind.__module__}:{kind.__qualname__}")
    if kind not in names:
        _check(kind, name)
        if not _importable(kind, name):
            _OF_THIS_PROCESS[name] = kind
    options = [field.name for field in dataclasses.fields(method) if field.init]
    # With slots=True there is no __dict__, and dataclasses.asdict would change what is in the
    # fields.
    values = {option: operator.attrgetter(option)(method) for option in options}
    return {"name": name, **{key: _plain(kind, key, value) for key, value in values.items()}}


def _importable(kind: type, name: str) -> bool:
    try:
        return not of_this_process(name) and imported(name) is kind
    except ConfigError:
        return False


def _plain(kind: type, field: str, value: Any) -> Any:
    """A field's value as TOML holds it."""
    try:
        return json.loads(json.dumps(plain(value)))
    except (TypeError, ValueError):
        raise ConfigError(
            f"{kind.__name__}.{field} holds a {type(value).__name__}; a comparison's folder can "
            "keep numbers, texts, booleans, and lists and tables of these: make it of such fields"
        ) from None
