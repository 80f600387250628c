"""Checks of a method's hyper-parameters. Each raises MethodError with the expected range."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from fedkin.core.errors import MethodError


def check_positive_integer(name: str, value: object) -> None:
    """Check that a value is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise MethodError(f"{name} must be an integer of at least 1, got {value!r}")


def check_integer_from_zero(name: str, value: object) -> None:
    """Check that a value is an integer of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise MethodError(f"{name} must be an integer from 0 up, got {value!r}")


def check_not_negative(name: str, value: object) -> None:
    """Check that a value is a finite number, at least 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not 0 <= value < np.inf
    ):
        raise MethodError(f"{name} must be a number from 0 up, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Check that a value is a finite number above 0."""
    check_not_negative(name, value)
    if not value:
        raise MethodError(f"{name} must be a number above 0, got {value!r}")


def check_fraction(name: str, value: object) -> None:
    """Check that a value is a number above 0 and at most 1."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not 0 < value <= 1
    ):
        raise MethodError(f"{name} must be a number above 0 and at most 1, got {value!r}")


def check_choice(name: str, value: object, choices: tuple) -> None:
    """Check that a value is one of the choices.

    Args:
        name: name of the hyper-parameter, for the message.
        value: its value.
        choices: the allowed values.
    """
    if value not in choices:
        raise MethodError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_choices(options: Any) -> None:
    """Check that every option of a dataclass whose type is a ``Literal`` has one of its values, and
    that every option of type bool is one.

    Raises:
        MethodError: an option has another value. The message names the allowed ones.
    """
    for name, kind in get_type_hints(type(options)).items():
        if kind is bool:
            check_choice(name, getattr(options, name), (True, False))
        if get_origin(kind) is Literal:
            check_choice(name, getattr(options, name), get_args(kind))
