"""User-defined methods: given as instances, or by their import path ``package.module:Class``.

A class that is defined in a script, a notebook or a function has an import path too, but only the
process that defined it can find it.
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
from fedkin.core.errors import ConfigError, missing_module, nearest
from fedkin.core.plain import plain
from fedkin.options.base import Option

STEPS = ("init", "round", "place")
_OF_THIS_PROCESS: dict[str, type] = {}  # classes that no other process can import, by import path


def is_own(name: str) -> bool:
    """Whether a name is the import path of a user's class, not a name of the library."""
    return ":" in name


def title(name: str) -> str:
    """The class name in an import path ``package.module:Class``."""
    return name.rpartition(":")[2].rpartition(".")[2]


def of_this_process(name: str) -> bool:
    """Whether an import path itself shows that its class is defined in a script, a notebook or a
    function, since it contains ``__main__`` or ``<locals>``."""
    return name.startswith("__main__:") or "<locals>" in name


def only_here(name: str) -> bool:
    """Whether only this process can find a class. In addition to the classes of
    ``of_this_process``, these are classes that could not be imported by their import paths."""
    return of_this_process(name) or name in _OF_THIS_PROCESS


def resume_note(names: Iterable[str]) -> str:
    """A note that is stored in a comparison's folder. It names the methods that are defined in a
    script, so that no other process can resume them; empty if there are none."""
    local = [name for name in names if only_here(name)]
    return (
        f"{', '.join(local)}: defined in a script, a notebook or a function; resume from there "
        "with compare(..., resume=True), or put the class into a module and start again in a new "
        "folder"
        if local
        else ""
    )


def imported(name: str) -> type:
    """Import the method class ``package.module:Class``. Modules are searched as by ``python -m``,
    from the current folder.

    Raises ConfigError if the class does not exist, its import fails, or it is not a method.
    """
    if name in _OF_THIS_PROCESS:
        return _OF_THIS_PROCESS[name]
    candidate = found(name)
    _check(candidate, name)
    return candidate


def imported_option(name: str) -> type[Option]:
    """Import the option class ``package.module:Class``, as ``imported`` does.

    Raises ConfigError if the class does not exist, its import fails, or it is not an option.
    """
    candidate = found(name)
    if not (
        isinstance(candidate, type)
        and issubclass(candidate, Option)
        and dataclasses.is_dataclass(candidate)
    ):
        raise ConfigError(
            f"{name!r} is not an option: expected a frozen dataclass that derives from fk.Option; "
            "see docs/write-an-option.md"
        )
    return candidate


def found(name: str) -> Any:
    """Import the object ``package.module:Name``. Modules are searched as by ``python -m``, from the
    current folder.

    Raises ConfigError if the object does not exist or its import fails.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute) or module.startswith("."):
        raise ConfigError(f"expected package.module:Class, got {name!r}")
    holder = sys.modules["__main__"] if module == "__main__" else _module(module, name)
    # The class may be inside another one, as in module:Outer.Inner.
    candidate: Any = functools.reduce(
        lambda one, part: getattr(one, part, None), attribute.split("."), holder
    )
    if candidate is None and of_this_process(name):
        raise ConfigError(
            f"{name!r} was defined in a script, a notebook or a function, so only the process that "
            "defines it can find it; resume from that script or notebook with resume=True, or put "
            "the class into a module, name it module:Class and start in a new folder"
        )
    if candidate is None:
        near = nearest(attribute, [one for one in vars(holder) if not one.startswith("_")])
        hint = "check the name" if near is None else f"did you mean {module}:{near}?"
        raise ConfigError(f"{name!r}: the module {module!r} does not define {attribute!r}; {hint}")
    return candidate


def _module(module: str, name: str) -> Any:
    """Import the module of the object ``name``. Raises ConfigError if that fails."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()  # the file may be newer than this process
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{name!r}: {missing_module(module, error)}") from error
    except Exception as error:  # whatever the user's own file raises
        raise ConfigError(
            f"{name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _check(candidate: Any, name: str) -> None:
    """Raise ConfigError unless an object is a method class. The message lists what the object
    lacks."""
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
            f"{name!r} is not a method: it lacks {', '.join(lacking)}; see docs/write-a-method.md"
        )


def entry_of(method: Any, names: dict[type, str]) -> Values:
    """The configuration entry of a method instance: its name or import path, and all its fields.

    Args:
        method: the method instance.
        names: names of the library's method classes.

    Raises:
        ConfigError: the object is not a method, or a field has a value that TOML cannot store.
    """
    kind = type(method)
    if isinstance(method, type):
        raise ConfigError(
            f"expected an instance of a method, such as {method.__name__}(), got the class itself"
        )
    name = names.get(kind, f"{kind.__module__}:{kind.__qualname__}")
    if kind not in names:
        _check(kind, name)
        if not _importable(kind, name):
            _OF_THIS_PROCESS[name] = kind
    options = [field.name for field in dataclasses.fields(method) if field.init]
    # Neither vars nor dataclasses.asdict can be used: classes with slots=True have no __dict__, and
    # asdict would convert nested dataclasses.
    values = {option: operator.attrgetter(option)(method) for option in options}
    return {"name": name, **{key: _plain(kind, key, value) for key, value in values.items()}}


def _importable(kind: type, name: str) -> bool:
    """Whether another process can import a class by its import path."""
    try:
        return not of_this_process(name) and imported(name) is kind
    except ConfigError:
        return False


def _plain(kind: type, field: str, value: Any) -> Any:
    """The value of a method's field as a TOML value. Raises ConfigError for a type that TOML does
    not have."""
    try:
        return json.loads(json.dumps(plain(value)))
    except (TypeError, ValueError):
        raise ConfigError(
            f"{kind.__name__}.{field} holds a {type(value).__name__}, but a comparison's folder "
            "can store only numbers, text, booleans, and lists and tables of these; use such "
            "fields"
        ) from None
