"""Validation of configuration values against the signature or the annotated fields of what takes
them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.identifiers import is_name
from fedkin.core.plain import plain, plain_lists

Values = dict[str, Any]
DEFAULT = "default"  # a value that stands for the default of any key
Place = Callable[[str], str]  # from a key to where it was read, for messages


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(
            "expected 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or digit"
        )
    return text


MOST = 2**31 - 1  # of any count: what arrays can be indexed by
_LONGEST_PATH = 2_000  # characters, as a message shows them: longer names are of no file
_SHOWN = 200  # characters of a value in a message
Positive = Annotated[int, Field(ge=1, le=MOST)]
NotNegative = Annotated[int, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(_name)]  # of a federation, a peer or a node


class Section(BaseModel):
    """Base of what is read from outside: no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )


S = TypeVar("S")


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def settings(section: str, *, kw_only: bool = False) -> Callable[[type[S]], type[S]]:
    """A frozen dataclass whose annotations are its checks. It raises ConfigError that names
    ``section.key``.

    Args:
        section: where its values stand in a configuration, for messages.
        kw_only: whether its fields are given by name only.
    """

    def decorate(cls: type[S]) -> type[S]:
        config = ConfigDict(extra="forbid", strict=True)
        validated: Any = pydantic.dataclasses.dataclass(
            frozen=True, kw_only=kw_only, config=config
        )(cls)
        init = validated.__init__
        signature = inspect.signature(validated)

        @functools.wraps(init)
        def convert_errors(self: S, *args: Any, **values: Any) -> None:
            for name in values:
                if name not in signature.parameters:
                    known = unknown("argument", name, signature.parameters)
                    raise TypeError(f"{cls.__name__}(): {known}")
            # Pydantic knows positional arguments by their number only.
            try:
                arguments = signature.bind(*args, **values).arguments
            except TypeError as error:
                raise TypeError(f"{cls.__name__}(): {error}") from None
            try:
                init(self, **{name: plain(value) for name, value in arguments.items()})
            except ValidationError as error:
                raise ConfigError(_message(error, lambda key: f"{section}.{key}")) from None

        validated.__init__ = convert_errors
        return validated

    return decorate


def options_schema(call: Callable[..., Any], skip: Iterable[str] = ()) -> type[Section]:
    """The options of a callable, from its signature: names, types and defaults."""
    # A dataclass inherits fields of others.
    plain_class = inspect.isclass(call) and not dataclasses.is_dataclass(call)
    hints = typing.get_type_hints(call.__init__ if plain_class else call)
    skipped = {"self", *skip}
    factories = _factories(call)
    entries: dict[str, Any] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in skipped or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        if name in factories:  # its default in the signature is a private mark
            default = factories[name]()
        entries[name] = (hints.get(name, Any), default)
    return create_model(getattr(call, "__name__", "Options"), __base__=Section, **entries)


def _factories(call: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """The fields of a dataclass that have ``field(default_factory=...)``."""
    fields = dataclasses.fields(call) if dataclasses.is_dataclass(call) else ()
    return {
        f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING
    }


def validate(kind: type[S], values: Values, place: Place, other_keys: Iterable[str] = ()) -> S:
    """Values as a section, or as the settings that describe it.

    Lists serve for tuples and text for paths, as in JSON; 3.5 or "ten" does not serve for an
    integer. The text ``default`` stands for the default of any key, as if the key were not there.

    Args:
        kind: a subclass of ``Section``, or a class made by ``settings``.
        values: by key.
        place: says where a key was read.
        other_keys: keys that the section has besides, to be suggested for a misspelled one.

    Raises:
        ConfigError: unknown key (with the nearest right one), missing key, wrong type, value out of
            range.
    """
    known = typing.cast(Any, kind).__pydantic_fields__
    for key, value in values.items():
        table, _, inner = key.partition(".")
        if inner and table in known:
            whole = (
                f"'{place(table)}={{{inner} = {json.dumps(plain_lists(value), default=str)}, ...}}'"
            )
            raise ConfigError(f"{place(table)} is a table; write it whole: {whole}")
        if key not in known:
            raise ConfigError(f"{place(key)}: {unknown('key', key, [*known, *other_keys])}")
    values = {
        key: value
        for key, value in values.items()
        if not (isinstance(value, str) and value == DEFAULT)
    }
    for key, value in values.items():
        _check_text(value, place(key))
    values = {key: _text_of_number(value, known[key].annotation) for key, value in values.items()}
    try:
        return TypeAdapter(kind).validate_json(json.dumps(plain_lists(values), default=str))
    except ValidationError as error:
        raise ConfigError(_message(error, place)) from None


def _check_text(value: Any, place: str) -> None:
    """Refuse (ConfigError) a file name that is not UTF-8, as no configuration can hold it."""
    if not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value):
        return
    name = repr(value.encode("utf-8", "surrogateescape"))[1:]
    if len(name) > _LONGEST_PATH:
        raise ConfigError(
            f"{place}: expected a name in UTF-8, got ${name[:_SHOWN]}... ({len(value):,} "
            "characters)"
        )
    raise ConfigError(
        f"{place}: expected a name in UTF-8, got ${name}; rename it first: mv ${name} NAME"
    )


def _text_of_number(value: Any, annotation: Any) -> Any:
    """A whole number as text, where text is expected: 1 is the name of a column "1"."""
    kinds = set(typing.get_args(annotation)) or {annotation}
    expects_text = str in kinds and kinds <= {str, int, type(None)}
    return str(value) if expects_text and type(value) is int else value


def _message(error: ValidationError, place: Place) -> str:
    """The first error in one line. A check of several keys begins its message with ``key: ``."""
    first, *others = error.errors()
    words = first["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    value = first["input"]
    for other in others:  # of a number or one of some words: both
        if other["type"] == "literal_error" and (other["loc"][0], other["input"]) == (
            first["loc"][0],
            value,
        ):
            words += other["msg"].replace("Input should be", " or")
    if not first["loc"]:
        key, _, words = words.partition(": ")
        return f"{place(key)}: {words}"
    key = str(first["loc"][0])
    if first["type"] == "missing":
        return f"{place(key)}: is required"
    for bare in ("greater", "less"):
        words = words.replace(f"expected {bare}", f"expected a value {bare}")
    return f"{place(key)}: {words}, got {shortened(value)}"


def shortened(value: object) -> str:
    """A value as messages show it: whole where it is short."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}... ({len(text):,} characters)"


def toml_values(section: Any) -> Values:
    """A section's values as TOML can hold them: None is left out, and so are empty tables.

    Args:
        section: a ``Section``, or settings (``settings``).
    """
    if isinstance(section, Section):
        values = section.model_dump(mode="json")
    else:
        values = TypeAdapter(type(section)).dump_python(section, mode="json")
    return {key: value for key, value in values.items() if value not in (None, {})}


def check_integer(name: str, value: object, least: int) -> None:
    """Refuse (ConfigError) what is not an integer of at least ``least``.

    Args:
        name: of the argument, for the message.
        value: of the argument.
        least: the smallest that is accepted.
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}")


@contextmanager
def error_context(section: str) -> Iterator[None]:
    """Errors from here on come from a section of the configuration, and say so."""
    try:
        yield
    except FedkinError as error:
        raise type(error)(f"{section}: {error}") from error
