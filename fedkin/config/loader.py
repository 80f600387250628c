"""Reading of all configuration files: TOML, ``section.key=value`` on top, and errors that begin
with their place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fedkin.config.registry import Entry, Registry, resolve
from fedkin.config.schema import DEFAULT, Place, Values, validate
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.storage import toml_text, user_path

S = TypeVar("S")
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'[^']*'"
_NUMBER_WITH_POINT = re.compile(
    rf"{_QUOTED}|(?<![\w.])([+-]?)(\d[\d_]*)?\.(\d[\d_]*)?(?=[eE][+-]?\d|[^\w.]|$)"
)


class Override(NamedTuple):
    """``section.key=value``."""

    section: str
    key: str
    value: Any


class Sections:
    """The sections of a configuration. ``place`` turns ``section.key`` into where it was read:
    ``file: section.key``.

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
        """The values of a section, none where it is missing."""
        return self._raw.get(name, {})

    def place_in(self, name: str) -> Place:
        """From a key of a section to its place."""
        return lambda key: self.place(f"{name}.{key}")

    def validate(self, name: str, kind: type[S]) -> S:
        """A section as an instance of its class."""
        return validate(kind, self[name], self.place_in(name))

    def resolve(self, name: str, kind: str, registry: Registry, default: str) -> Entry:
        """The entry of a registry that a section names, with all its options.

        Args:
            name: of the section.
            kind: what the registry holds, for messages.
            registry: the entries.
            default: the entry where the section names none.
        """
        return resolve(kind, registry, {"name": default} | self[name], self.place_in(name))

    def construct(self, name: str, make: Callable[[], S]) -> S:
        """Make what a section says. What is refused is refused (ConfigError) with the section's
        place.

        Args:
            name: of the section.
            make: called without arguments.
        """
        try:
            return make()
        except FedkinError as error:
            raise ConfigError(f"{self.place(name)}: {error}") from error


def check_table(values: object, place: str) -> None:
    """Raise ConfigError for what is not a TOML table."""
    if not isinstance(values, dict):
        raise ConfigError(f"{place}: expected a section, got {values!r}")


def read(
    path: Path | None, overrides: Sequence[str], default: Mapping[str, Values] | None = None
) -> tuple[dict[str, Any], Place]:
    """The sections of a file with overrides on top, and the place of each key: an override has none
    in the file. ``section.key=default`` takes a key of the file away, so that it has its default.

    Args:
        path: of the file; None: ``default`` in its place.
        overrides: texts such as ``section.key=value``.
        default: sections where there is no file; where it is given, a file must not be empty.

    Raises:
        ConfigError: no such file, not TOML, an empty one, or no ``section.key=value``.
    """
    raw: dict[str, Any] = (
        read_toml(path)
        if path
        else {name: dict(values) for name, values in (default or {}).items()}
    )
    if default and not raw:
        raise ConfigError(
            f"{path}: says nothing; expected sections such as [{'], ['.join(default)}]"
        )
    overridden = set()
    for text in overrides:
        section, key, value = parse_override(text)
        check_table(raw.setdefault(section, {}), f"{path}: {section}" if path else section)
        if value == DEFAULT and (key in raw[section] or key == "name"):
            raw[section].pop(key, None)
        else:  # of a key that is not there, its section says whether there is such a key
            raw[section][key] = value
        overridden |= {
            section,
            f"{section}.{key}",
        }  # what is said of the whole section may be of this key
    return raw, lambda key: key if path is None or key in overridden else f"{path}: {key}"


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary. A leading byte-order mark is skipped.

    Raises ConfigError: it is missing, cannot be read, or is not TOML.
    """
    path = user_path(path)
    try:
        return tomllib.loads(toml_text(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(f"{path}: is not TOML: too many brackets inside each other") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def parse_override(text: str) -> Override:
    """``section.key=value`` in its three parts; the value as TOML has it, else as the text it is.

    Raises ConfigError for anything else.
    """
    dotted, equals, value = text.partition("=")
    section, dot, key = dotted.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(
            f"expected section.key=value, got {text!r}; such as run.rounds=5 or local.lr=0.1"
        )
    return Override(section, key, parse_value(value))


def parse_value(text: str) -> Any:
    """A TOML value (7, 0.5, true, [1, 2], "seven"), or the text itself where it is none. Numbers
    may be written without a digit before or after the point (.5, 1.), also within lists and tables.

    Raises ConfigError for brackets too deep to be read.
    """
    for spelling in (text, _NUMBER_WITH_POINT.sub(_with_zeros, text)):
        try:
            parsed = tomllib.loads(f"value = {spelling}")
        except ValueError:  # TOMLDecodeError, and a number of thousands of digits
            continue
        except RecursionError:
            raise ConfigError(f"{text[:20]}...: too many brackets inside each other") from None
        if len(parsed) == 1:
            return parsed["value"]
    return text.strip()


def _with_zeros(match: re.Match[str]) -> str:
    """A number with the digits that TOML wants on both sides of its point; a point alone and quoted
    text stay."""
    sign, before, after = match.groups()
    if not before and not after:
        return match.group()
    return f"{sign}{before or 0}.{after or 0}"
