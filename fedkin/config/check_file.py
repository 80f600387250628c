"""Check of a configuration file: its kind and its errors. Nothing is run and no data are read.

After each error the file's values are repaired in memory, and the file is validated again. So the
errors are those of the commands that read the file. Methods, grid and settings of a comparison are
checked only when the rest of the file is right.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.config import comparison, peer, reference, run, server
from fedkin.config.comparison_repair import GridError, repair_grid
from fedkin.config.keys import Key, keys
from fedkin.config.loader import Sections, read_toml
from fedkin.config.schema import Place, Values
from fedkin.core.errors import ConfigError, FedkinError, nearest
from fedkin.core.storage import user_path

# The command that reads each kind of file.
COMMANDS = {
    "run": "fedkin run",
    "comparison": "fedkin compare",
    "server": "fedkin deploy",
    "site": "fedkin deploy",
    "peer": "fedkin peer",
}
_MOST_ERRORS = 50
_LOCATION = re.compile(r"(\w+)(?:\.([\w.]*\w))?")


@dataclass(frozen=True)
class FileCheck:
    """The result of a check.

    Attributes:
        path: the file.
        kind: its kind: run, comparison, server, site or peer.
        errors: one line for each error; empty: the file is right.
    """

    path: Path
    kind: str
    errors: tuple[str, ...]


def check_file(path: Path) -> FileCheck:
    """Check a file. Raises ConfigError if it is missing, empty or not TOML."""
    path = user_path(path)
    raw = read_toml(path)
    if not raw:
        raise ConfigError(f"{path}: is empty; expected sections such as [data], [method]")
    kind = kind_of(raw)
    repair = _Repair(kind, copy.deepcopy(raw))
    errors: list[str] = []
    for _ in range(_MOST_ERRORS):
        try:
            _validate(kind, copy.deepcopy(repair.values), path)
            break
        except FedkinError as error:
            message = str(error).removeprefix(f"{path}: ")
            location = _LOCATION.match(message)
            if location is None:
                errors.append(f"{path}: {message}")
                break
            in_grid = isinstance(error, GridError)
            if repair.has_made(location[0], in_grid):
                break
            errors.append(f"{path}: {message}")
            if in_grid:
                repaired = repair_grid(repair.values["compare"], location[0], message)
            else:
                repaired = repair.repair(location[1], location[2] or "", message)
            if not repaired:
                break
    return FileCheck(path, kind, tuple(errors))


def kind_of(raw: dict[str, Any]) -> str:
    """The kind of a file, by its sections. A section that only one kind has counts more, and a
    misspelt section counts as the nearest one."""

    def score(kind: str) -> float:
        own = reference.FILES[kind]
        points = 0.0
        for name in raw:
            section = name if name in reference.SECTIONS else nearest(name, reference.SECTIONS)
            if section is not None and section in own:
                # A comparison has all sections of a run.
                others = [other for other in reference.files_of(section) if other != kind]
                points += 1 if others else 3
        return points

    # The first of equal kinds: a run before a comparison.
    return max(reference.FILES, key=score)


def _validate(kind: str, raw: dict[str, Any], path: Path) -> None:
    """Validate a file of a kind as its command does. Raises FedkinError for the first error."""

    def place(key: str) -> str:
        return f"{path}: {key}"

    folder = path.parent.absolute()
    if kind == "server":
        server.server_from_dict(raw, place, folder)
    elif kind == "site":
        server.client_from_dict(raw, place, folder)
    elif kind == "peer":
        peer.from_dict(raw, place)
    elif kind == "comparison":
        _validate_comparison(raw, place)
    else:
        run.from_dict(raw, place)


def _validate_comparison(raw: dict[str, Any], place: Place) -> None:
    """Validate a comparison's file: its sections, and then its grid. Raises GridError if only the
    grid is wrong."""
    sections = {name: values for name, values in raw.items() if name != "compare"}
    compare = Sections({"compare": raw.get("compare", {})}, ["compare"], place)
    compare.validate("compare", comparison.CompareSection)
    run.from_dict(sections, place)
    try:
        comparison.from_dict(raw, place)
    except FedkinError as error:
        raise GridError(str(error)) from error


class _Repair:
    """The values of a file, of which wrong ones are replaced so that the next error is found."""

    def __init__(self, kind: str, values: dict[str, Any]) -> None:
        self.values = values
        self._sections = reference.FILES[kind]
        self._made: set[str] = set()

    def has_made(self, location: str, in_grid: bool) -> bool:
        """Whether the value at a location is from a repair, so that an error there is none of the
        file.

        Args:
            location: the place that the error names.
            in_grid: whether the error is in the grid of a comparison. Only the name of its section,
                such as the data set, can then be from a repair.
        """
        section = location.partition(".")[0]
        return (f"{section}.name" if in_grid else location) in self._made

    def repair(self, section: str, key: str, message: str) -> bool:
        """Repair the value that an error names. Returns whether there was one.

        Args:
            section: the section that the message names.
            key: the key that it names; empty: none.
            message: the message, which may name the key after the section.
        """
        if section not in self._sections:
            return self._repair_section(section)
        if section not in self.values:
            known = self._known(section, {})
            self.values[section] = {
                name: entry.example for name, entry in known.items() if entry.default == "required"
            }
            return bool(known)
        values = self.values[section]
        if not isinstance(values, dict):
            del self.values[section]
            return True
        table, _, inner = key.partition(".")
        if inner and isinstance(values.get(table), dict):
            section = f"{section}.{table}"
            values = values[table]
            key = inner
        if not key:
            word = re.match(rf"{section}: (\w+)", message)
            key = word[1] if word and word[1] in values else ""
        return self._repair_key(section, values, key.partition(".")[0])

    def _repair_section(self, name: str) -> bool:
        """Give a misspelt section its right name, or remove it."""
        values = self.values.pop(name, None)
        near = nearest(name, self._sections)
        if near is not None and near not in self.values:
            self.values[near] = values
        return values is not None

    def _repair_key(self, section: str, values: Values, key: str) -> bool:
        """Rename a misspelt key, replace a wrong value, or add a key that is required."""
        known = self._known(section, values)
        if not key or not (key in values or key in known):
            return False
        value = values.pop(key, None)
        if key == "name" and self._sections[section].named and value is not None:
            return self._repair_name(section, values, value)
        near = nearest(key, sorted(known))
        if key not in known and near is not None and near not in values:
            values[near] = value
        elif key in known:
            self._made.add(f"{section}.{key}")
            if known[key].default == "required":
                values[key] = known[key].example
        return True

    def _repair_name(self, section: str, values: Values, name: object) -> bool:
        """Replace an unknown name by the nearest one, or remove the section."""
        near = nearest(str(name), self._sections[section].kinds())
        self._made.add(f"{section}.name")
        if near is None:
            del self.values[section]
        else:
            values["name"] = near
        return True

    def _known(self, section: str, values: Values) -> dict[str, Key]:
        """The keys that a section with these values may have."""
        declared = self._sections[section]
        kind = declared.kind(values)
        known = {key.name: key for key in keys(kind)} if kind else {}
        if declared.named:
            known["name"] = reference.name_row(section).key
        return known
