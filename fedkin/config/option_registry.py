"""Options that can be combined with any method (``fedkin/options``, e.g. differential privacy).
Each kind of option has a section in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedkin.config import registry, user_methods
from fedkin.config.loader import Sections
from fedkin.config.registry import Entry, Registry
from fedkin.config.schema import error_context
from fedkin.core.errors import ConfigError
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.options.with_options import by_section


def known_values(section: str) -> Registry:
    """The classes of options that a section can name, such as ``fedadam`` in
    [server_optimizer]."""
    return SECTIONS[section].classes()


def own_sections(raw: Mapping[str, Any], known: Iterable[str]) -> tuple[str, ...]:
    """The sections of a configuration that hold a user's own option, named by its class:
    "mymodule:Mine".

    Args:
        raw: the configuration, by section.
        known: names of all other sections.
    """
    return tuple(
        section for section, values in raw.items() if section not in known and _is_own(values)
    )


def _is_own(values: Any) -> bool:
    """Whether the values of a section refer to a user's own option, by its import path."""
    name = values.get("name") if isinstance(values, dict) else None
    return isinstance(name, str) and user_methods.is_own(name)


def resolve_options(sections: Sections, names: Iterable[str]) -> dict[str, Entry]:
    """The options of a configuration as registry entries, by section. Empty sections and sections
    with the name "none" are left out.

    Args:
        sections: the sections of a configuration.
        names: names of the sections of options.

    Raises:
        ConfigError: a name is missing or unknown, or ``registry.resolve`` refuses the values.
    """
    resolved: dict[str, Entry] = {}
    for name in names:
        entry = _resolve(sections, name)
        if entry is not None:
            resolved[name] = entry
    return resolved


def _resolve(sections: Sections, section: str) -> Entry | None:
    """The registry entry of the option (e.g. differential privacy) in a section; None if the
    section is empty or its name is "none"."""
    given = sections[section]
    place = sections.place_in(section)
    if not given or given.get("name") == "none":  # an override can switch off an option of the file
        return None
    if _is_own(given):
        with error_context(place("name")):
            known: Registry = _own_option(section, given["name"])
        return registry.resolve("option", known, given, place)
    known = known_values(section)
    if "name" not in given:
        raise ConfigError(f"{place('name')}: is required; known: {', '.join(known)}, none")
    return registry.resolve(SECTIONS[section].words, known, given, place)


def _own_option(section: str, name: str) -> dict[str, Callable[..., Any]]:
    """A registry with a user's option as its only entry. Raises ConfigError if the option belongs
    to another section."""
    kind = user_methods.imported_option(name)
    if kind.section != section:
        raise ConfigError(
            f"{name!r} is an option of the section [{kind.section}], not of [{section}]"
        )
    return {name: kind}


def made_options(sections: Sections, entries: Mapping[str, Entry]) -> dict[str, Option]:
    """Make the options of a configuration. They are returned by section, in the order in which a
    run applies them.

    Errors of an option become ConfigError, which names the section's place in the file.

    Args:
        sections: the sections of the configuration.
        entries: the registry entries of its options, by section.
    """
    return by_section(
        sections.construct(name, lambda entry=entry: entry.made) for name, entry in entries.items()
    )
