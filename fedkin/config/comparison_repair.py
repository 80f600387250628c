"""Repairs wrong values of a comparison's section [compare] in memory, so that a check of the file
finds the next error, too."""

from __future__ import annotations

import re
from typing import Any

from fedkin.config import registry
from fedkin.config.comparison import SECTION_OF
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError, nearest

_OPTION = re.compile(r"\w+\.\w[\w.]*")


class GridError(ConfigError):
    """An error in the grid of a comparison whose other sections are right."""


def repair_grid(compare: Values, location: str, message: str) -> bool:
    """Repair the value that an error of a comparison's grid names. Returns whether there was one.

    Args:
        compare: the section [compare], which is changed.
        location: the place that the message names: ``compare.KEY``, or an option ``section.key`` of
            a setting.
        message: the message, without the path of the file.
    """
    section, _, key = location.partition(".")
    if section != "compare":
        return _remove_option(compare, location)
    reason = message.removeprefix(location).removeprefix(": ")
    if key == "methods" and isinstance(compare.get("methods"), list):
        return _repair_method(compare["methods"], reason)
    named = _OPTION.search(reason)
    if key == "grid" and named is not None and _remove_option(compare, named[0]):
        return True
    return compare.pop(key, None) is not None


def _repair_method(methods: list[Any], reason: str) -> bool:
    """Give a misspelt method its nearest name, or remove a wrong option from the methods."""
    known = registry.methods()
    option = reason.partition(":")[0]
    for number, entry in enumerate(methods):
        name = entry.get("name") if isinstance(entry, dict) else entry
        if option == "name" and name not in known:
            near = nearest(str(name), sorted(known))
            if near is None:
                del methods[number]
            else:
                methods[number] = {**entry, "name": near} if isinstance(entry, dict) else near
            return True
    having = [entry for entry in methods if isinstance(entry, dict) and option in entry]
    for entry in having:
        del entry[option]
    return bool(having)


def _remove_option(compare: Values, option: str) -> bool:
    """Remove an option ``section.key`` from the grid, and from the entries of data and scenarios.
    Returns whether it was there."""
    section, _, key = option.partition(".")
    grid = compare.get("grid", {})
    holders = [(grid, option), (grid.get(section), key)]
    for kind, own_section in SECTION_OF.items():
        for entry in compare.get(kind) or []:
            holders.append((entry.get(section), key))
            if section == own_section:
                holders.append((entry, key))
    found = [(values, name) for values, name in holders if isinstance(values, dict)]
    held = [(values, name) for values, name in found if name in values]
    for values, name in held:
        del values[name]
    return bool(held)
