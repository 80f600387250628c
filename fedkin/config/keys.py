"""The keys of a section: name, type, default, meaning and example, from the declarations that
validate it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from fedkin.config.declarations import fields_of
from fedkin.config.key_examples import annotation_of, example
from fedkin.config.key_meanings import meaning
from fedkin.config.schema import MOST

_WORDS: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    dict: "table",
    Any: "text or list",
}
_PLURALS = {"integer": "integers", "number": "numbers", "text": "texts", "table": "tables"}
_BOUNDS = {Ge: ("ge", "at least"), Gt: ("gt", "above"), Le: ("le", "at most"), Lt: ("lt", "below")}


class Key(NamedTuple):
    """A key of a section.

    Attributes:
        name: the key.
        type: its type, range and choices in words.
        default: the default as TOML has it; empty: no value is set; "required": there is none.
        meaning: one or more sentences in Markdown.
        example: a right value.
    """

    name: str
    type: str
    default: str
    meaning: str
    example: Any


def keys(kind: Callable[..., Any], *sources: type) -> list[Key]:
    """The keys of a section.

    Args:
        kind: a class or function whose signature validates the section.
        sources: classes whose fields of the same names say what a key means.
    """
    # The meanings stand in the docstring of the function, not of its wrapper.
    home = inspect.unwrap(kind) if inspect.isfunction(kind) else kind
    return [
        Key(
            name=name,
            type=type_words(annotation_of(field)),
            default=default_words(field),
            meaning=meaning((home, *sources), name),
            example=example(home, name, field),
        )
        for name, field in fields_of(kind).items()
    ]


def type_words(annotation: Any) -> str:
    """An annotation in words: ``int | None`` is an integer."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return ", ".join([type_words(arguments[0]), *_range(arguments[1:])])
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        parts = [part for part in arguments if part is not type(None)]
        # A number may be an integer.
        parts = [part for part in parts if part is not int or float not in parts]
        return " or ".join(dict.fromkeys(map(type_words, parts)))
    if origin is not None and inspect.isclass(origin):
        return "table" if issubclass(origin, Mapping) else _list_words(arguments)
    if dataclasses.is_dataclass(annotation):
        return "table"
    return _WORDS.get(annotation, "text")


def _list_words(arguments: tuple[Any, ...]) -> str:
    """A list in words, with the type of its values."""
    if not arguments:
        return "list"
    values = type_words(arguments[0])
    words = [_PLURALS.get(word, word) for word in values.split(" or ")]
    return f"list of {' or '.join(words)}"


def _range(metadata: tuple[Any, ...]) -> list[str]:
    """The range of an annotation, such as "at least 1"; the largest index of an array is left
    out."""
    words = []
    for entry in metadata:
        bounds = entry.metadata if isinstance(entry, FieldInfo) else [entry]
        for bound in bounds:
            if type(bound) in _BOUNDS:
                attribute, text = _BOUNDS[type(bound)]
                value = getattr(bound, attribute)
                words += [f"{text} {value}"] if value != MOST else []
    return words


def default_words(field: FieldInfo) -> str:
    """A default as TOML has it; empty if none is set."""
    if field.is_required():
        return "required"
    return value_words(field.get_default(call_default_factory=True))


def value_words(value: Any) -> str:
    """A value as TOML has it; empty if it sets nothing."""
    if value is None or value in ({}, [], (), ""):
        return ""
    return json.dumps(value, default=str)
