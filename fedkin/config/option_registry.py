"""What goes with any method, by the name of its section in a configuration (``fedkin/options``)."""

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
    """The classes of an option by name."""
    return SECTIONS[section].classes()


def own_sections(raw: Mapping[str, Any], known: Iterable[str]) -> tuple[str, ...]:
    """The sections of a configuration that hold options of the user's own: they name a class,
    "mymodule:Mine".

    Args:
        raw: the configuration as it was read.
        known: all other sections.
    """
    return tuple(
        section for section, values in raw.items() if section not in known and _is_own(values)
    )


def _is_own(values: Any) -> bool:
    """Whether a section names a user's own option."""
    name = values.get("name") if isinstance(values, dict) else None
    return isinstance(name, str) and user_methods.is_own(name)


def resolve_options(sections: Sections, names: Iterable[str]) -> dict[str, Entry]:
    """The options of a configuration by section, without empty sections and those whose name is
    "none".

    Args:
        sections: of a configuration.
        names: of the sections that it may have.

    Raises:
        ConfigError: no name, a name that is not known, or what ``registry.resolve`` refuses.
    """
    resolved: dict[str, Entry] = {}
    for name in names:
        entry = _resolve(sections, name)
        if entry is not None:
            resolved[name] = entry
    return resolved


def _resolve(sections: Sections, section: str) -> Entry | None:
    given = sections[section]
    place = sections.place_in(section)
    if not given or given.get("name") == "none":  # options of a file that an override takes away
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
    """A user's own option by its name. Raises ConfigError for one of another section."""
    kind = user_methods.imported_option(name)
    if kind.section != section:
        raise ConfigError(
            f"{name!r} is an option of the section [{kind.section}], not of [{section}]"
        )
    return {name: kind}


def made_options(sections: Sections, entries: Mapping[str, Entry]) -> dict[str, Option]:
    """The options of a configuration by section, made, in the order of ``by_section``.

    What one refuses is refused (ConfigError) with its place.

    Args:
        sections: of the configuration.
        entries: of its options, by section.
    """
    return by_section(
        sections.construct(name, lambda entry=entry: entry.made) for name, entry in entries.items()
    )
