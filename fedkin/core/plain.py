"""Conversion of NumPy numbers to Python numbers. An option then behaves, prints and is stored in
the same way, whether it was given as a NumPy or a Python number."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_KINDS = {"b": bool, "i": int, "u": int, "f": float, "U": str}  # NumPy types of options


def plain(value: Any) -> Any:
    """Convert a number or text of NumPy, JAX or PyTorch to Python's, also within lists, tuples and
    dictionaries.

    0-dimensional arrays are numbers. Other values stay unchanged: longer arrays, and masked
    numbers, which have no value.
    """
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(plain(entry) for entry in value)
    if type(value) is dict:
        return {plain(key): plain(entry) for key, entry in value.items()}
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    """Convert a 0-dimensional array to a Python value. Other values stay unchanged."""
    if getattr(value, "ndim", None) != 0 or isinstance(value, np.ma.MaskedArray):
        return value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # such as a tensor that requires a gradient
        return value
    if array.dtype.name == "bfloat16":
        return float(array)
    kind = _KINDS.get(array.dtype.kind)
    return value if kind is None else kind(array[()])


def plain_lists(value: Any) -> Any:
    """Convert a value as ``plain`` does, and turn arrays and tuples into lists, as in TOML and
    JSON."""
    if isinstance(value, (list, tuple)):
        return [plain_lists(entry) for entry in value]
    if isinstance(value, dict):
        return {plain(key): plain_lists(entry) for key, entry in value.items()}
    if isinstance(value, range):
        return list(value)
    if getattr(value, "ndim", 0) and hasattr(value, "tolist") and not np.ma.is_masked(value):
        return plain_lists(value.tolist())
    return plain(value)


def plain_options(cls: type[T]) -> type[T]:
    """Class decorator for dataclasses of options. Its ``__init__`` converts NumPy numbers to Python
    numbers.

    An array or a range becomes a tuple if the field's annotation allows a tuple. Other arrays stay
    as they are.
    """
    init: Callable[..., None] = cls.__init__
    fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    names = [field.name for field in fields]
    tuples = {field.name for field in fields if "tuple[" in str(field.type)}

    @functools.wraps(init)
    def made_of_plain(self: T, *args: Any, **options: Any) -> None:
        by_position = [
            _option(value, name in tuples) for name, value in zip(names, args, strict=False)
        ]
        by_name = {name: _option(value, name in tuples) for name, value in options.items()}
        init(self, *by_position, *args[len(names) :], **by_name)

    cls.__init__ = made_of_plain
    return cls


def plain_arguments(call: Callable[P, R]) -> Callable[P, R]:
    """Function decorator that converts NumPy numbers in the arguments to Python numbers.

    A list, an array or a range becomes a tuple if the argument's annotation allows a tuple.
    """

    untyped: Any = call
    parameters = inspect.signature(call).parameters
    names = list(parameters)
    tuples = {
        name for name, parameter in parameters.items() if "tuple[" in str(parameter.annotation)
    }

    @functools.wraps(call)
    def called_with_plain(*args: P.args, **options: P.kwargs) -> R:
        by_position: Any = [
            _argument(value, name in tuples) for name, value in zip(names, args, strict=False)
        ]
        by_position += args[len(names) :]
        by_name: Any = {name: _argument(value, name in tuples) for name, value in options.items()}
        return untyped(*by_position, **by_name)

    return called_with_plain


def _argument(value: Any, as_tuple: bool) -> Any:
    """A function's argument as plain Python values. If ``as_tuple``, a list, an array or a range
    becomes a tuple."""
    made = _option(value, as_tuple)
    return tuple(made) if as_tuple and isinstance(made, list) else made


def _option(value: Any, as_tuple: bool) -> Any:
    """An option's value as plain Python values. If ``as_tuple``, an array or a range becomes a
    tuple."""
    is_array = isinstance(value, np.ndarray) and value.ndim > 0 and not np.ma.is_masked(value)
    if as_tuple and (is_array or isinstance(value, range)):
        return tuple(plain_lists(value))
    return plain(value)
