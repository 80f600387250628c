"""Validation of configuration values against the annotated fields of a class or the signature of a
function."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
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

from fedkin.config.key_examples import Form, argument, example, setting
from fedkin.core.errors import ConfigError, FedkinError, nearest, unknown
from fedkin.core.identifiers import is_name
from fedkin.core.plain import plain, plain_lists

Values = dict[str, Any]
DEFAULT = "default"  # a value that stands for the default of any key
Place = Callable[[str], str]  # turns a key into its name in messages, such as ``FILE: local.lr``


def _name(text: str) -> str:
    """Check that a text is a valid name of a federation, a peer or a node."""
    if not is_name(text):
        raise ValueError(
            "expected 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or digit"
        )
    return text


MOST = 2**31 - 1  # largest count: the largest index of an array
_LONGEST_PATH = 2_000  # characters in a message; no file name is longer
_DECLARED_BY = "__declared_by__"  # attribute of a schema: the callable that declares its keys
_SHOWN = 200  # largest number of characters of a value in a message
Positive = Annotated[int, Field(ge=1, le=MOST)]
NotNegative = Annotated[int, Field(ge=0, le=MOST)]
# A score to reach. Its highest value depends on the measure (``config.score_goals``).
Goal = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(_name)]  # of a federation, a peer or a node


class Section(BaseModel):
    """Base class of sections: unknown keys are refused, and values are not converted silently."""

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
    """Decorator that makes a frozen dataclass and checks its fields against their annotations. An
    invalid value raises a ConfigError that names ``section.key``.

    Args:
        section: the section of the settings in a configuration, for messages.
        kw_only: whether fields must be given by name.
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
            # Give all arguments by name: pydantic's errors only number positional ones.
            try:
                arguments = signature.bind(*args, **values).arguments
            except TypeError as error:
                raise TypeError(f"{cls.__name__}(): {error}") from None
            try:
                init(self, **{name: plain(value) for name, value in arguments.items()})
            except ValidationError as error:
                message = _message(error, lambda key: f"{section}.{key}", validated, argument)
                raise ConfigError(message) from None

        validated.__init__ = convert_errors
        return validated

    return decorate


def options_schema(call: Callable[..., Any], skip: Iterable[str] = ()) -> type[Section]:
    """The schema of a callable's options: names, types and defaults from its signature. Arguments
    in ``skip`` are not options."""
    return _options_schema(call, frozenset(skip))


# Making a schema takes most of the time of loading a configuration, and a comparison loads many.
@functools.lru_cache(maxsize=256)
def _options_schema(call: Callable[..., Any], skip: frozenset[str]) -> type[Section]:
    """The schema of a callable's options."""
    # A dataclass is asked for its types itself, since they include those of inherited fields.
    plain_class = inspect.isclass(call) and not dataclasses.is_dataclass(call)
    hints = typing.get_type_hints(call.__init__ if plain_class else call)
    skipped = {"self", *skip}
    factories = _factories(call)
    entries: dict[str, Any] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in skipped or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        if name in factories:  # the signature has only a placeholder for this default
            default = factories[name]()
        entries[name] = (hints.get(name, Any), default)
    schema = create_model(getattr(call, "__name__", "Options"), __base__=Section, **entries)
    setattr(schema, _DECLARED_BY, call)
    return schema


def _factories(call: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """The default factories of a dataclass's fields, by field name."""
    fields = dataclasses.fields(call) if dataclasses.is_dataclass(call) else ()
    return {
        f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING
    }


def validate(
    kind: type[S],
    values: Values,
    place: Place,
    other_keys: Mapping[str, Any] = MappingProxyType({}),
) -> S:
    """Validate values, and return them as an instance of a section or settings class.

    As in JSON, a list may stand for a tuple and text for a path, but 3.5 or "ten" is not an
    integer. The text ``default`` stands for the default of any key.

    Args:
        kind: a subclass of ``Section``, or a class made by ``settings``.
        values: the values by key.
        place: function that turns a key into its name in messages, such as ``FILE: local.lr``.
        other_keys: valid keys that the caller handles, each with a right value. They are suggested
            for misspelt keys.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type or range.
    """
    known = typing.cast(Any, kind).__pydantic_fields__
    for key, value in values.items():
        table, _, inner = key.partition(".")
        if inner and table in known:
            whole = (
                f"'{place(table)}={{{inner} = {json.dumps(plain_lists(value), default=str)}, ...}}'"
            )
            raise ConfigError(f"{place(table)} is a table; set the whole table: {whole}")
        if key not in known:
            raise ConfigError(_unknown_key(kind, key, place, other_keys))
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
        raise ConfigError(_message(error, place, kind)) from None


def _unknown_key(kind: type, key: str, place: Place, other_keys: Mapping[str, Any]) -> str:
    """Error message for an unknown key: the nearest right key with an example, or all keys."""
    known = typing.cast(Any, kind).__pydantic_fields__
    names = [*known, *other_keys]
    message = f"{place(key)}: {unknown('key', key, names)}"
    near = nearest(key, sorted(names))
    if near is None:
        return message
    value = other_keys[near] if near in other_keys else _example(kind, near)
    right_place = f"{place(key).removesuffix(key)}{near}"
    return f"{message} For example {setting(right_place, near, value)}"


def _example(kind: type, key: str) -> Any:
    """A right value of a key of a section or settings class."""
    fields = typing.cast(Any, kind).__pydantic_fields__
    return example(getattr(kind, _DECLARED_BY, kind), key, fields[key])


def _check_text(value: Any, place: str) -> None:
    """Raise ConfigError for text that is not UTF-8 (such as a file name), because TOML cannot store
    it."""
    if not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value):
        return
    # The message shows the bytes in the shell's form $'\xff', which can be pasted.
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
    """An integer as text if text is expected, so that 1 can name the column "1"."""
    kinds = set(typing.get_args(annotation)) or {annotation}
    expects_text = str in kinds and kinds <= {str, int, type(None)}
    return str(value) if expects_text and type(value) is int else value


def _message(error: ValidationError, place: Place, kind: type, form: Form = setting) -> str:
    """The first error of a validation, as one line that begins with the key and ends with a right
    example. If pydantic names no key, the error is from a check of several keys, and its message
    already begins with a key.

    Args:
        error: the error.
        place: function that turns a key into its name in messages.
        kind: the section or settings class.
        form: writes the example as the user gives a value: in a file, or as an argument.
    """
    first, *others = error.errors()
    words = first["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    value = first["input"]
    for other in others:  # a union of types has one error for each type
        if other["type"] == "literal_error" and (other["loc"][0], other["input"]) == (
            first["loc"][0],
            value,
        ):
            words += other["msg"].replace("Input should be", " or")
    if not first["loc"]:
        key, _, words = words.partition(": ")
        return f"{place(key)}: {words}"
    key = str(first["loc"][0])
    right = form(place(key), key, _example(kind, key))
    if first["type"] == "missing":
        return f"{place(key)}: is required; for example {right}"
    for bare in ("greater", "less"):
        words = words.replace(f"expected {bare}", f"expected a value {bare}")
    return f"{place(key)}: {words}, got {shortened(value)}; for example {right}"


def shortened(value: object) -> str:
    """A value for messages, cut off if its text is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}... ({len(text):,} characters)"


def toml_values(section: Any) -> Values:
    """The values of a section as TOML values, without None and empty tables.

    Args:
        section: a ``Section``, or an instance of a class made by ``settings``.
    """
    if isinstance(section, Section):
        values = section.model_dump(mode="json")
    else:
        values = TypeAdapter(type(section)).dump_python(section, mode="json")
    return {key: value for key, value in values.items() if value not in (None, {})}


def check_integer(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless a value is an integer of at least ``least``.

    Args:
        name: name of the argument, for the message.
        value: value of the argument.
        least: the smallest valid value.
    """
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        # Words such as "a seed" are no name that could be given.
        example = f"; for example {name}={max(least, 1)}" if name.isidentifier() else ""
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}{example}")


@contextmanager
def error_context(section: str) -> Iterator[None]:
    """Context manager that puts the name of a configuration's section before each error message."""
    try:
        yield
    except FedkinError as error:
        raise type(error)(f"{section}: {error}") from error
