"""Suggestions for misspelt keyword arguments in Python.

Python suggests similar names of modules and classes, but before version 3.13 no names of arguments.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from fedkin.core.errors import unknown

_MARK = "suggests_options"  # attribute that marks calls with suggestions


def suggesting(module: ModuleType, name: str) -> Any:
    """A public object of a module, made to suggest names of arguments: an unknown keyword argument
    of a function or class raises a TypeError with the most similar name.

    A function is also replaced in the module that defines it, so that pickle finds the same object.

    Args:
        module: the module.
        name: the object's name. Objects that are not callable are returned unchanged.
    """
    public = getattr(module, name)
    if isinstance(public, types.FunctionType):
        public = _checked(public, name)
        for place in (module, sys.modules[public.__module__]):
            setattr(place, name, public)
    elif isinstance(public, type) and "__init__" in vars(public):
        public.__init__ = _checked(public.__init__, name, public)
    return public


def _checked(call: Callable[..., Any], name: str, owner: type | None = None) -> Callable[..., Any]:
    """Wrap a callable in a check of its argument names. The check of a class's ``__init__`` does
    not apply to subclasses, which may have more arguments."""
    parameters = inspect.signature(call).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if hasattr(call, _MARK) or takes_any:
        return call
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind is not parameter.POSITIONAL_ONLY and parameter.name != "self"
    ]

    @wraps(call)
    def checked(*args: Any, **options: Any) -> Any:
        for option in options:
            if option not in names and (owner is None or type(args[0]) is owner):
                hint = _argument_with(call, option) or unknown("argument", option, names)
                raise TypeError(f"{name}(): {hint}")
        return call(*args, **options)

    setattr(checked, _MARK, True)
    return checked


def _argument_with(call: Callable[..., Any], option: str) -> str:
    """A hint for an unknown argument that is a field of another argument of the call (e.g. of
    ``scoring``). The hint is empty if no argument has such a field."""
    try:
        hints = typing.get_type_hints(call)
    except Exception:  # annotations of a user's class that only type checkers see
        return ""
    for argument, hint in hints.items():
        for kind in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(kind) and isinstance(kind, type):
                if option in {field.name for field in dataclasses.fields(kind)}:
                    made = f"{argument}=fk.{kind.__name__}({option}=...)"
                    return f"{option!r} is an option of {argument}: {made}"
    return ""
