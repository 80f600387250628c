"""Checks of types in tests: by jaxtyping with beartype where a signature has the shape of an array,
and by beartype alone elsewhere, which takes a sixth of the time of a call.

The check of a function is built at its first call: to build those of all functions takes seconds in
each process, and most processes call few of them. The shapes of NumPy arrays are compared here,
because jaxtyping copies all known sizes at each comparison. jaxtyping itself decides about all
other arrays, and about every array that does not fit.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any, NamedTuple

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintException
from jaxtyping import _array_types
from jaxtyping._storage import _shape_storage, _treeflatten_storage

_beartype: Callable[..., Any] = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
_jaxtyped = jaxtyping.jaxtyped
_ARRAY_TYPES: Any = type(jaxtyping.AbstractArray)
_checked_by_jaxtyping: Callable[[Any, Any], bool] = _ARRAY_TYPES.__instancecheck__


def use() -> None:
    """Check the functions of modules that are imported from now on.

    The option ``--jaxtyping-packages`` decorates each function and each dataclass of fedkin with
    ``jaxtyping.jaxtyped``, which this function replaces.
    """
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]
    _ARRAY_TYPES.__instancecheck__ = is_array_of
    _use_setting()
    # Python 3.12 stores the attributes of a protocol. 3.11 collects them at every check.
    if sys.version_info < (3, 12):
        attributes = typing._get_protocol_attrs  # type: ignore[attr-defined]
        typing._get_protocol_attrs = functools.cache(attributes)  # type: ignore[attr-defined]


def _checked(*, typechecker: Any) -> Callable[[Any], Any]:
    """The decorator of functions and classes."""

    def decorate(value: Any) -> Any:
        if inspect.isclass(value):
            if is_dataclass(value) and not _is_checked(value.__init__):
                value.__init__ = _checked_from_first_call(value.__init__, typechecker)
            return value
        if isinstance(value, FunctionType):
            return _checked_from_first_call(value, typechecker)
        return _jaxtyped(value, typechecker=typechecker)

    return decorate


def _is_checked(function: Any) -> bool:
    """Whether a function is a result of ``_checked_from_first_call``."""
    return getattr(function, "__globals__", None) is globals()


def _checked_from_first_call(function: FunctionType, typechecker: Any) -> Callable[..., Any]:
    """A function with checks that jaxtyping's setting can turn off, as its own."""
    check = _Check(function, typechecker)

    # Without variables of this function: its code can then be replaced.
    def call(*args: Any, __check: _Check = check, **kwargs: Any) -> Any:
        return __check.called(args, kwargs)

    check.call = functools.update_wrapper(call, function)
    return call


class _Check:
    """The check of a function, which is built at the first call.

    From then on the function has the code of its check: another call of Python for each call took
    a third of the time of tests with many short functions.
    """

    def __init__(self, function: FunctionType, typechecker: Any) -> None:
        self.function = function
        self.typechecker = typechecker
        self.checked: Any = None
        self.can_be_taken = False
        self.call: Any = None

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, checked or not."""
        if jaxtyping.config.jaxtyping_disable:
            return self.function(*args, **kwargs)
        if self.checked is None:
            hints = resolved_hints(self.function)
            if _names_a_replacement(self.function, hints):
                return self.function(*args, **kwargs)
            self.checked = with_checks(self.function, self.typechecker, hints)
            self.can_be_taken = _can_be_taken(self.checked)
        if self.can_be_taken:
            # In this order, as another thread may call the function in between.
            self.call.__kwdefaults__ = self.call.__kwdefaults__ | self.checked.__kwdefaults__
            self.call.__code__ = self.checked.__code__
            _with_code_of_checks.append(self.call)
        return self.checked(*args, **kwargs)


_FIRST_CODE = _checked_from_first_call(lambda: None, None).__code__  # type: ignore[attr-defined]
_with_code_of_checks: list[Any] = []


def _can_be_taken(checked: Any) -> bool:
    """Whether a function does the same with its code and its defaults by keyword in another
    function of this module."""
    code = checked.__code__
    if code.co_freevars or checked.__defaults__ or checked.__kwdefaults__ is None:
        return False
    # What beartype needs are defaults by keyword. It names Python's own functions, and a
    # dictionary's ``get``.
    return checked.__globals__ is globals() or all(
        name == "get" or hasattr(builtins, name) for name in code.co_names
    )


def _use_setting() -> None:
    """When jaxtyping's setting turns checks off, functions have their first code again, which asks
    for the setting."""
    settings: Any = type(jaxtyping.config)
    off = [jaxtyping.config.jaxtyping_disable]

    def set_off(_: Any, value: bool) -> None:
        off[0] = value
        while value and _with_code_of_checks:
            _with_code_of_checks.pop().__code__ = _FIRST_CODE

    settings.jaxtyping_disable = property(lambda _: off[0], set_off)


def with_checks(
    function: FunctionType, typechecker: Any, hints: dict[str, Any] | None
) -> Callable[..., Any]:
    """A function that checks the types of its arguments and of its result.

    Args:
        function: the function; its annotations stay as they are.
        typechecker: what jaxtyping checks with, where an annotation names something unknown.
        hints: the ``resolved_hints`` of the function.
    """
    if hints is None:
        return _jaxtyped(function, typechecker=typechecker)
    # A generator checks its arguments when it begins, which may be in the scope of another call.
    if inspect.isgeneratorfunction(function):
        return with_checks(_as_plain_function(function), typechecker, hints)
    # beartype would look for the types through all frames of the stack, which takes longer than the
    # rest. fedkin reads annotations as they are written.
    written = function.__annotations__
    function.__annotations__ = hints
    try:
        checked = _beartype(function)
    except BeartypeDecorHintException:  # jaxtyping checks the other annotations
        return _jaxtyped(function, typechecker=typechecker)
    finally:
        function.__annotations__ = written
    return _in_one_scope(checked) if any(map(_has_shape, hints.values())) else checked


def _as_plain_function(function: FunctionType) -> FunctionType:
    """A function with the signature of a generator function, which calls it."""
    signature = inspect.signature(function, follow_wrapped=False)
    written = []
    passed = []
    for name, parameter in signature.parameters.items():
        # The values of the defaults are set below.
        default = parameter.empty if parameter.default is parameter.empty else None
        written.append(parameter.replace(annotation=parameter.empty, default=default))
        by_kind = {
            parameter.VAR_POSITIONAL: f"*{name}",
            parameter.VAR_KEYWORD: f"**{name}",
            parameter.KEYWORD_ONLY: f"{name}={name}",
        }
        passed.append(by_kind.get(parameter.kind, name))
    head = signature.replace(parameters=written, return_annotation=signature.empty)
    names: dict[str, Any] = {"__function": function}
    exec(f"def call{head}: return __function({', '.join(passed)})", names)
    call: Any = functools.update_wrapper(names["call"], function)
    call.__defaults__ = function.__defaults__
    call.__kwdefaults__ = function.__kwdefaults__
    del call.__wrapped__
    return call


def _in_one_scope(checked: Callable[..., Any]) -> Callable[..., Any]:
    """A checked function in which one letter of a shape has one value, from the first argument to
    the result.

    ``jaxtyped`` with a ``typechecker`` does this too, but it checks all arguments twice.
    """

    # Without variables of this function, as its code is taken by another one.
    def call(*args: Any, __checked: Callable[..., Any] = checked, **kwargs: Any) -> Any:
        try:
            scopes = _shape_storage.memo_stack
        except AttributeError:  # the first one of this thread
            scopes = _shape_storage.memo_stack = []
        scopes.append(({}, {}, {}, {}))
        try:
            return __checked(*args, **kwargs)
        finally:
            scopes.pop()

    return call


def _names_a_replacement(function: FunctionType, hints: dict[str, Any] | None) -> bool:
    """Whether a test has put a class of its module in the place of a class that an annotation
    names. The check would then be of the wrong class, also in later tests."""
    found = hints or {}
    return any(map(_is_of_a_test, found.values())) and not function.__module__.startswith("tests")


def _is_of_a_test(hint: Any) -> bool:
    """Whether a type, or a part of it, is a class of a test's module."""
    module = getattr(hint, "__module__", "")
    return str(module).startswith("tests.") or any(map(_is_of_a_test, typing.get_args(hint)))


def resolved_hints(function: FunctionType) -> dict[str, Any] | None:
    """The annotations of a function as types; None if one names something that is not defined."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        return None


def may_have_shapes(function: FunctionType) -> bool:
    """Whether an annotation has the shape of an array, or names something that is not defined
    yet."""
    hints = resolved_hints(function)
    return hints is None or any(map(_has_shape, hints.values()))


def _has_shape(hint: Any) -> bool:
    """Whether an annotation, or a part of it, is jaxtyping's."""
    parts = hint if isinstance(hint, list) else typing.get_args(hint)
    return type(hint).__module__.startswith("jaxtyping") or any(map(_has_shape, parts))


# --- the shapes of NumPy arrays


class _Known(NamedTuple):
    """The axes and types of numbers of a type of arrays."""

    axes: tuple[str | int | None, ...]  # a letter, a size, or None for any size
    numbers: set[type]  # NumPy's types of numbers that jaxtyping has accepted


_known_types: dict[Any, _Known | None] = {}  # None: jaxtyping decides about arrays of the type


def is_array_of(array_type: Any, value: Any) -> bool:
    """Whether a value has the type of numbers and the shape of a type of arrays, such as
    ``Float[np.ndarray, "n 2"]``. The size of a letter that has none yet is remembered, as jaxtyping
    does."""
    if type(value) is np.ndarray:
        known = _known_types.get(array_type)
        if known is not None and value.dtype.type in known.numbers:
            if _fits(known.axes, value.shape):
                return True
    elif array_type.array_type is np.ndarray and not isinstance(value, np.ndarray):
        return array_type._skip_instancecheck
    if not _checked_by_jaxtyping(array_type, value):
        return False
    if type(value) is np.ndarray:
        _remember(array_type, value.dtype.type)
    return True


def _remember(array_type: Any, number: type) -> None:
    """Remember that jaxtyping has accepted an array with this type of numbers."""
    if array_type not in _known_types:
        axes = axes_of(array_type)
        _known_types[array_type] = None if axes is None else _Known(axes, set())
    known = _known_types[array_type]
    # jaxtyping compares the fields of structured arrays (void) too.
    if known is not None and number is not np.void:
        known.numbers.add(number)


def axes_of(array_type: Any) -> tuple[str | int | None, ...] | None:
    """The axes of a type of NumPy arrays; None where it has other axes than letters, sizes and
    ``_``."""
    if array_type.array_type is not np.ndarray or array_type.index_variadic is not None:
        return None
    axes: list[str | int | None] = []
    for axis in array_type.dims:
        if axis is _array_types._anonymous_dim:
            axes.append(None)
        elif type(axis) is _array_types._FixedDim and not axis.broadcastable:
            axes.append(axis.size)
        elif type(axis) is _array_types._NamedDim and not (axis.broadcastable or axis.treepath):
            axes.append(axis.name)
        else:
            return None
    return tuple(axes)


def _fits(axes: tuple[str | int | None, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape has these axes. If so, the sizes of its letters are remembered."""
    if len(axes) != len(shape) or _is_flattening():
        return False
    try:
        scopes = _shape_storage.memo_stack
    except AttributeError:  # outside of all functions with checks
        scopes = []
    sizes = scopes[-1][0] if scopes else {}
    if len(axes) == 1 and type(axes[0]) is str:
        return sizes.setdefault(axes[0], shape[0]) == shape[0]
    found: dict[str, int] = {}
    for axis, size in zip(axes, shape, strict=False):
        if type(axis) is str:
            if sizes.get(axis, size) != size or found.get(axis, size) != size:
                return False
            found[axis] = size
        elif axis is not None and axis != size:
            return False
    if found:
        sizes.update(found)
    return True


def _is_flattening() -> bool:
    """Whether jaxtyping flattens a pytree: until it has, it looks at no shape."""
    try:
        return _treeflatten_storage.value
    except AttributeError:  # the first time in this thread
        _treeflatten_storage.value = False
        return False
