"""Reading of configuration files in TOML, with overrides ``section.key=value``. Error messages
begin with the place of the error, such as ``FILE: local.lr``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from fedkin.config.declarations import Declared, fields_of
from fedkin.config.key_examples import with_example
from fedkin.config.list_values import with_lists
from fedkin.config.registry import Entry, Registry, resolve
from fedkin.config.schema import DEFAULT, Place, Values, validate
from fedkin.config.value_texts import parse_value
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.storage import toml_text, user_path

S = TypeVar("S")


class Override(NamedTuple):
    """A text ``section.key=value``, divided into section, key and value."""

    section: str
    key: str
    value: Any


class Sections:
    """The sections of a configuration. ``place`` is a function that turns ``section.key`` into its
    name in messages, such as ``FILE: section.key``.

    Raises ConfigError for an unknown section, or one that is not a table.
    """

    def __init__(self, raw: Mapping[str, Any], known: Iterable[str], place: Place = str) -> None:
        known = list(known)
        for name, values in raw.items():
            if name not in known:
                raise ConfigError(f"{place(name)}: {unknown('section', name, known)}")
            check_table(values, place(name))
        self._raw = raw
        self.place = place

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def __getitem__(self, name: str) -> Values:
        """The values of a section; empty if the section is missing."""
        return self._raw.get(name, {})

    def place_in(self, name: str) -> Place:
        """A function that turns a key of a section into its name in messages."""
        return lambda key: self.place(f"{name}.{key}")

    def validate(self, name: str, kind: type[S]) -> S:
        """Validate a section, and return it as an instance of ``kind``."""
        return validate(kind, self[name], self.place_in(name))

    def resolve(self, name: str, kind: str, registry: Registry, default: str) -> Entry:
        """The registry entry that a section names, with all its options.

        Args:
            name: name of the section.
            kind: kind of the registry's entries, for messages, such as ``model``.
            registry: the registry.
            default: name of the entry if the section has no name.
        """
        return resolve(kind, registry, {"name": default} | self[name], self.place_in(name))

    def construct(
        self, name: str, make: Callable[[], S], kind: Callable[..., Any] | None = None
    ) -> S:
        """Call a function that makes the object of a section. Errors become ConfigError, which
        names the section's place in the file.

        Args:
            name: name of the section.
            make: function without arguments.
            kind: class that declares the section's keys. An error about a value then ends with a
                right example. None: ``make`` adds it.
        """
        try:
            return make()
        except FedkinError as error:
            message = with_example(str(error), kind, fields_of(kind)) if kind else str(error)
            raise ConfigError(f"{self.place(name)}: {message}") from error


def check_table(values: object, place: str) -> None:
    """Raise ConfigError unless the values are a TOML table."""
    if not isinstance(values, dict):
        raise ConfigError(
            f"{place}: expected a section, got {values!r}; write it as a table of keys, such as "
            "{key = value}"
        )


def read(
    path: Path | None,
    overrides: Sequence[str],
    default: Mapping[str, Values] | None = None,
    declared: Mapping[str, Declared] = MappingProxyType({}),
) -> tuple[dict[str, Any], Place]:
    """Read the sections of a file and apply overrides. Also returns a function that turns a
    key into its name in messages: the file and the key, or only the key if an override has set it.

    The override ``section.key=default`` removes a key of the file, so that it has its default. The
    override ``section.key=a,b`` is a list if the key takes one.

    Args:
        path: the file; None: use ``default`` instead.
        overrides: texts such as ``section.key=value``.
        default: sections that are used without a file. If it is given, a file must not be empty.
        declared: what declares the keys of each section, which says which keys take a list.

    Raises:
        ConfigError: the file is missing, empty or not TOML, or an override has another form.
    """
    raw: dict[str, Any] = (
        read_toml(path)
        if path
        else {name: dict(values) for name, values in (default or {}).items()}
    )
    if default and not raw:
        raise ConfigError(f"{path}: is empty; expected sections such as [{'], ['.join(default)}]")
    given: list[tuple[str, str]] = []
    for text in overrides:
        section, key, value = parse_override(text)
        check_table(raw.setdefault(section, {}), f"{path}: {section}" if path else section)
        if value == DEFAULT and (key in raw[section] or key == "name"):
            raw[section].pop(key, None)
        else:  # if the file lacks the key, the section's check finds unknown keys
            raw[section][key] = value
        given.append((section, key))
    # An error about a whole section may come from one of its overrides.
    overridden = {section for section, _ in given} | {".".join(names) for names in given}
    return (
        with_lists(raw, given, declared),
        lambda key: key if path is None or key in overridden else f"{path}: {key}",
    )


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary. A leading byte-order mark is skipped.

    Raises ConfigError if the file is missing, cannot be read, or is not TOML.
    """
    path = user_path(path)
    text = ""
    try:
        text = toml_text(path)
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(
            f"{path}: is not TOML: it has too many brackets inside each other"
        ) from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ConfigError(f"{path}: is not TOML: {error}{_line_of(text, str(error))}") from error


def _line_of(text: str, message: str) -> str:
    """The line of a file that an error of tomllib names, for the end of the message. A value that
    is a word without quotes is shown with quotes. Empty if the message names no line."""
    place = re.search(r"\(at line (\d+), column \d+\)", message)
    if place is None:
        return ""
    line = text.splitlines()[int(place[1]) - 1].strip()
    word = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*=\s*([A-Za-z_][^\s\"'#]*)", line)
    if word is None:
        return f": {line}"
    if word[2].lower() in ("true", "false"):
        return f": {line}; write {word[1]} = {word[2].lower()}"
    return f': {line}; text has quotes: {word[1]} = "{word[2]}"'


def parse_override(text: str) -> Override:
    """Split a text ``section.key=value`` into section, key and value. The value is parsed by
    ``parse_value``.

    Raises ConfigError if the text has another form.
    """
    dotted, equals, value = text.partition("=")
    section, dot, key = dotted.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(
            f"expected section.key=value, such as run.rounds=5 or local.lr=0.1; got {text!r}"
        )
    return Override(section, key, parse_value(value))
