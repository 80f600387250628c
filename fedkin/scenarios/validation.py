"""Checks of the options of scenarios, and of the data that they change."""

from __future__ import annotations

import numpy as np

from fedkin.core.errors import ConfigError, unknown
from fedkin.data.federated import FederatedData


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


def refuse_other_labels(data: FederatedData, what: str, cure: str = "leave it out") -> None:
    """Raise ConfigError unless labels are classes. The labels of survival data are places in risk
    sets, so they are no classes either.

    Args:
        data: data of the federation.
        what: what changes the labels, for the message.
        cure: what to do instead.
    """
    if not data.has_classes:
        raise ConfigError(
            f"{data.name}: {what} changes labels that are classes, but the labels are of task = "
            f"{data.task_type.name!r}; {cure}"
        )
