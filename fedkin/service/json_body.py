"""Bodies of requests: parsed as JSON, checked, and turned into rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedkin.core.errors import ConfigError, DataError

MOST_BYTES = 1_000_000  # default limit of a body


class InvalidBodyError(DataError):
    """The body of a request is not what its address expects."""


class BodyTooLargeError(DataError):
    """The body of a request is larger than the limit."""


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises InvalidBodyError."""
    try:
        value = json.loads(body)
    except RecursionError:
        raise InvalidBodyError("the body is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, too many digits
        raise InvalidBodyError(f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise InvalidBodyError("the body must be a JSON object")
    return value


def check_keys(body: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise InvalidBodyError for a key that the address does not know."""
    for key in body:
        if key not in known:
            raise InvalidBodyError(f"unknown key {key[:40]!r}; known: {', '.join(known)}")


def rows_of(value: Any, place: str) -> Any:
    """Rows as a model takes them: a list of numbers for each row, or a DataFrame if each row is an
    object of columns.

    Args:
        value: the rows of the body.
        place: their key, for messages.

    Raises InvalidBodyError if there are no rows, or rows of both kinds.
    """
    if not isinstance(value, list) or not value:
        raise InvalidBodyError(f"{place}: expected a list with at least one row")
    if not any(isinstance(row, dict) for row in value):
        return value
    if not all(isinstance(row, dict) for row in value):
        raise InvalidBodyError(f"{place}: rows must be all lists or all objects")
    import pandas as pd

    return pd.DataFrame(value)


def optional_text(body: Mapping[str, Any], key: str) -> str | None:
    """A text of the body; None if it has none. A whole number counts as text, since clients without
    names have numbers. Raises ConfigError for another type."""
    value = body.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ConfigError(f"{key}: expected a text, got {type(value).__name__}")


def optional_number(body: Mapping[str, Any], key: str) -> int | None:
    """A whole number of the body; None if it has none. Raises ConfigError for another type."""
    value = body.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ConfigError(f"{key}: expected a whole number, got {type(value).__name__}")
