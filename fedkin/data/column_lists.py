"""Options that list columns of a table."""

from __future__ import annotations

from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_lists


def column_list(option: str, given: Any, example: str) -> tuple[str | int, ...]:
    """The columns that an option lists.

    Args:
        option: name of the option, for the message.
        given: a column; or a list, an array or an index of pandas with columns; None for none.
        example: a list of columns for the message, such as ``['age', 'weight']``.

    Raises:
        ConfigError: it is none of these.
    """
    if given is None:
        return ()
    names = plain_lists(given)
    if isinstance(names, (str, int)):
        return (names,)
    if not isinstance(names, list) or not all(isinstance(name, (str, int)) for name in names):
        raise ConfigError(
            f"{option} must be a list of columns, such as {option} = {example}, got {given!r}"
        )
    return tuple(names)
