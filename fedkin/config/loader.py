"""Reading of configuration files in TOML, with overrides ``section.key=value``. Error messages
begin with the place of the error, such as ``FILE: local.lr``."""

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
# A number with a point. It may lack a digit on one side (.5, 1.), which TOML does not allow. Quoted
# texts match too, so that numbers in them stay unchanged.
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'[^']*'"
_NUMBER_WITH_POINT = re.compile(
    rf"{_QUOTED}|(?<![\w.])([+-]?)(\d[\d_]*)?\.(\d[\d_]*)?(?=[eE][+-]?\d|[^\w.]|$)"
)


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

    def construct(self, name: str, make: Callable[[], S]) -> S:
        """Call a function that makes the object of a section. Errors become ConfigError, which
        names the section's place in the file.

        Args:
            name: name of the section.
            make: function without arguments.
        """
        try:
            return make()
        except FedkinError as error:
            raise ConfigError(f"{self.place(name)}: {error}") from error


def check_table(values: object, place: str) -> None:
    """Raise ConfigError unless the values are a TOML table."""
    if not isinstance(values, dict):
        raise ConfigError(
            f"{place}: expected a section, got {values!r}; write it as a table of keys, such as "
            "{key = value}"
        )


def read(
    path: Path | None, overrides: Sequence[str], default: Mapping[str, Values] | None = None
) -> tuple[dict[str, Any], Place]:
    """Read the sections of a file and apply overrides. Also returns a function that turns a
    key into its name in messages: the file and the key, or only the key if an override has set it.

    The override ``section.key=default`` removes a key of the file, so that it has its default.

    Args:
        path: the file; None: use ``default`` instead.
        overrides: texts such as ``section.key=value``.
        default: sections that are used without a file. If it is given, a file must not be empty.

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
    overridden = set()
    for text in overrides:
        section, key, value = parse_override(text)
        check_table(raw.setdefault(section, {}), f"{path}: {section}" if path else section)
        if value == DEFAULT and (key in raw[section] or key == "name"):
            raw[section].pop(key, None)
        else:  # if the file lacks the key, the section's check finds unknown keys
            raw[section][key] = value
        overridden |= {
            section,
            f"{section}.{key}",
        }  # an error about the whole section may come from this key
    return raw, lambda key: key if path is None or key in overridden else f"{path}: {key}"


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary. A leading byte-order mark is skipped.

    Raises ConfigError if the file is missing, cannot be read, or is not TOML.
    """
    path = user_path(path)
    try:
        return tomllib.loads(toml_text(path))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(
            f"{path}: is not TOML: it has too many brackets inside each other"
        ) from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ConfigError(f"{path}: is not TOML: {error}") from error


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


def parse_value(text: str) -> Any:
    """Parse a TOML value (7, 0.5, true, [1, 2], "seven"). Any other text is returned as it is.
    Numbers may lack a digit before or after the point (.5, 1.), also within lists and tables.

    Raises ConfigError for brackets that are nested too deeply.
    """
    for spelling in (text, _NUMBER_WITH_POINT.sub(_with_zeros, text)):
        try:
            parsed = tomllib.loads(f"value = {spelling}")
        except ValueError:  # TOMLDecodeError, and a number of thousands of digits
            continue
        except RecursionError:
            raise ConfigError(
                f"{text[:20]}...: the value has too many brackets inside each other"
            ) from None
        # A text with line breaks could define further keys; it is then no single value.
        if len(parsed) == 1:
            return parsed["value"]
    return text.strip()


def _with_zeros(match: re.Match[str]) -> str:
    """Add the digits that TOML requires before and after a number's point. A point alone and quoted
    text stay unchanged."""
    sign, before, after = match.groups()
    if not before and not after:
        return match.group()
    return f"{sign}{before or 0}.{after or 0}"
