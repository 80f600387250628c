"""Checks of the options of scenarios."""

from __future__ import annotations

import numpy as np

from fedkin.core.errors import ConfigError, unknown


def fraction(name: str, value: object) -> None:
    """Raise ConfigError unless a value is a number from 0 to 1."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        if 0 <= value <= 1:
            return
    raise ConfigError(f"{name} must be a fraction in [0, 1], got {value!r}")


def at_least(least: int, name: str, value: object) -> None:
    """Raise ConfigError unless a value is an integer of at least ``least``.

    Args:
        least: the smallest allowed value.
        name, value: name and value of the option.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}")


def switch(name: str, value: object) -> None:
    """Raise ConfigError unless a value is true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name} must be true or false, got {value!r}")


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless a value is one of the allowed values.

    Args:
        name, value: name and value of the option.
        known: allowed values.
    """
    if value not in known:
        raise ConfigError(unknown(name, str(value), known))
