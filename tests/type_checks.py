"""Checks of types in tests: by jaxtyping with beartype where a signature has the shape of an array,
and by beartype alone elsewhere, which takes a sixth of the time of a call."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintException

_beartype: Callable[..., Any] = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
_jaxtyped = jaxtyping.jaxtyped


def use() -> None:
    """Check the functions of modules that are imported from now on.

    The option ``--jaxtyping-packages`` decorates each function and each dataclass of fedkin with
    ``jaxtyping.jaxtyped``, which this function replaces.
    """
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]


def _checked(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator of functions and classes."""

    def decorate(value: Any) -> Any:
        if inspect.isclass(value) and _is_checked(value.__init__):
            return value
        if isinstance(value, FunctionType) and not may_have_shapes(value):
            try:
                return _without_shapes(value)
            except BeartypeDecorHintException:  # jaxtyping checks the other annotations
                pass
        return _jaxtyped(value, typechecker=typechecker)

    return decorate


def _is_checked(function: Any) -> bool:
    """Whether a function is a result of ``_without_shapes``."""
    return getattr(function, "__globals__", None) is globals()


def _without_shapes(function: FunctionType) -> Callable[..., Any]:
    """A function with checks that jaxtyping's setting can turn off, as its own."""
    annotations = dict(function.__annotations__)
    checked = _beartype(function)
    # beartype turns the names of types into types, but fedkin reads them as they are written.
    function.__annotations__ = annotations

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = function if jaxtyping.config.jaxtyping_disable else checked
        return chosen(*args, **kwargs)

    return call


def may_have_shapes(function: FunctionType) -> bool:
    """Whether an annotation has the shape of an array, or names something that is not defined
    yet."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        return True
    return any(map(_has_shape, hints.values()))


def _has_shape(hint: Any) -> bool:
    """Whether an annotation, or a part of it, is jaxtyping's."""
    parts = hint if isinstance(hint, list) else typing.get_args(hint)
    return type(hint).__module__.startswith("jaxtyping") or any(map(_has_shape, parts))
