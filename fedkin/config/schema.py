"""Named choices with options: what a function or a dataclass takes, checked before it is called."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from fedkin.core.errors import ConfigError, FedkinError, unknown

Values = dict[str, Any]


class Section(BaseModel):
    """Base of what is read from outside: no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, protected_namespaces=()
    )


def schema(call: Callable[..., Any], skip: Iterable[str] = ()) -> type[Section]:
    """The options of a callable, from its signature: names, types and defaults."""
    plain_class = inspect.isclass(call) and not dataclasses.is_dataclass(call)  # a dataclass inherits fields of others
    hints = typing.get_type_hints(call.__init__ if plain_class else call)
    left_out = {"self", *skip}
    made = _factories(call)
    entries: dict[str, Any] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in left_out or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        if name in made:  # its place in the signature is taken by a private mark
            default = made[name]()
        entries[name] = (hints.get(name, Any), default)
    return create_model(getattr(call, "__name__", "Options"), __base__=Section, **entries)


def _factories(call: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """The fields of a dataclass that have ``field(default_factory=...)``."""
    fields = dataclasses.fields(call) if dataclasses.is_dataclass(call) else ()
    return {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING}


S = TypeVar("S", bound=Section)
D = TypeVar("D")


def checked(kind: type[S], values: Values, where: Callable[[str], str], beside: Iterable[str] = ()) -> S:
    """Values as a section; ``where(key)`` says where a key came from, ``beside`` which other keys its place has.

    Lists serve for tuples and text for paths, as in JSON; 3.5 or "ten" does not serve for an integer.

    Raises ConfigError: unknown key (with the nearest right one), missing key, wrong type, value out of range.
    """
    for key in values:
        if key not in kind.model_fields:
            raise ConfigError(f"{where(key)}: {unknown('key', key, [*kind.model_fields, *beside])}")
    try:
        return kind.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError(_in_words(error, where)) from None


def plain(section: Section) -> Values:
    """A section's values as TOML can hold them: None is left out, and so are empty tables."""
    return {key: value for key, value in section.model_dump(mode="json").items() if value not in (None, {})}


def choose(kind: str, registry: Mapping[str, Callable[..., Any]], name: Any, where: str) -> Callable[..., Any]:
    """The entry of a registry.

    Raises ConfigError for an unknown name, with the nearest right one.
    """
    if not isinstance(name, str):
        raise ConfigError(f"{where}: expected the name of a {kind}, got {name!r}")
    if name not in registry:
        raise ConfigError(f"{where}: {unknown(kind, name, registry)}")
    return registry[name]


def _in_words(error: ValidationError, where: Callable[[str], str]) -> str:
    """The first thing that pydantic found, in one line."""
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "missing":
        return f"{where(key)}: is required"
    message = first["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    for bare in ("greater", "less"):
        message = message.replace(f"expected {bare}", f"expected a value {bare}")
    return f"{where(key)}: {message}, got {first['input']!r}"


def revive(kind: type[S], values: Values) -> S:
    """Values that were checked before, as a section again."""
    return kind.model_validate_json(json.dumps(values))


def made(kind: type[D], values: Values, where: Callable[[str], str]) -> D:
    """A section as the dataclass that describes it."""
    return told(where, kind, dict(checked(schema(kind), values, where)))


def told(where: Callable[[str], str], kind: type[D], values: Values) -> D:
    """Make it; what it refuses itself begins with ``section.key``, which gets its place."""
    try:
        return kind(**values)
    except ConfigError as error:
        dotted = re.match(r"\w+\.(\w+)", str(error))
        raise ConfigError(where(dotted[1]) + str(error)[dotted.end() :] if dotted else str(error)) from error


@contextmanager
def error_context(section: str) -> Iterator[None]:
    """Errors from here on come from a section of the configuration, and say so."""
    try:
        yield
    except FedkinError as error:
        raise type(error)(f"{section}: {error}") from error
