"""A method's state with arrays of an option of any method beside its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, make_dataclass
from typing import Any

import numpy as np

from fedkin.core.method import State


def extended_type(kind: type[State], arrays: tuple[str, ...], functions: Mapping[str, Any] | None = None) -> type[Any]:
    """A type of states with more arrays; its name and all else are another's, whose checkpoints it can read.

    Args:
        kind: the other.
        arrays: names of the new ones.
        functions: in place of the other's, by name.
    """
    namespace = {"__module__": kind.__module__, "__doc__": kind.__doc__, **(functions or {})}
    new = [(name, np.ndarray) for name in arrays]
    made = make_dataclass(kind.__name__, new, bases=(kind,), frozen=True, namespace=namespace)
    made.__qualname__ = kind.__qualname__
    return made


def own_state(state: State) -> Any:
    """The method's own state, without what ``extended_type`` put beside it last."""
    kind: Any = type(state).__bases__[0]
    return kind(**values(state, kind))


def values(state: State, kind: type[State] | None = None) -> dict[str, Any]:
    """A state's arrays by name; those of a type that it extends, where one is given."""
    return {f.name: getattr(state, f.name) for f in fields(kind or type(state))}
