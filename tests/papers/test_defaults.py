"""The defaults that stored runs rely on.

A setting leaves out the fields of methods, shifts and local training that have their defaults, and
the options of data and models that its recipe does not name. So where a default changes, an older
run would be shown as one of today's. defaults.json has the defaults of the stored runs; of methods
and shifts, those that the code of the papers names. None that stands for a number is pinned as
None: a number that changes behind it is a correction of code, as any other. The table is written
again, from the root of the repository, by ``python -c "from tests.papers.test_defaults import
write; write()"``
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import papers
from fedkin.core.training import LocalTraining
from fedkin.data import DATASETS, load
from fedkin.methods import METHODS
from fedkin.models import MODELS
from fedkin.scenarios.planted_clusters import planted
from fedkin.scenarios.population import Population
from fedkin.scenarios.shifts import SHIFTS
from papers.catalogue import PAPERS
from papers.fedsim import authors_draw
from papers.femnist_candidates import CANDIDATES
from papers.recipe import Cell
from papers.setting_digest import plain

STORE = Path(__file__).with_name("defaults.json")
DATA: dict[str, Callable[..., Any]] = {
    **DATASETS,
    **CANDIDATES,
    "published": load,
    "fedsim_quarter": authors_draw.quarter,
    "planted": planted,
}
Defaults = dict[str, Any]  # of one class or function, by field or option


def modules() -> list[ModuleType]:
    """The modules of recipes."""
    names = [module.name for module in pkgutil.walk_packages(papers.__path__, "papers.")]
    return [importlib.import_module(name) for name in names if name.endswith("recipes")]


def cells() -> list[Cell]:
    """The cells in the lists and tuples of the recipes."""
    lists = [
        value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, (list, tuple))
    ]
    return [cell for values in lists for cell in values if isinstance(cell, Cell)]


def functions() -> list[Callable[..., Any]]:
    """The data sets and models that a cell names, or that a module of recipes imports."""
    named = {DATA[cell.setting.data] for cell in cells()} | {
        MODELS[cell.setting.model] for cell in cells()
    }
    known = {inspect.unwrap(function): function for function in (*DATA.values(), *MODELS.values())}
    values = [
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isfunction(value)
    ]
    imported = {known[inspect.unwrap(value)] for value in values if inspect.unwrap(value) in known}
    return sorted(named | imported, key=lambda function: function.__name__)


def names_in_papers() -> set[str]:
    """The names and attributes in the code of the papers, and its texts: a recipe names a class
    either way."""
    found: set[str] = set()
    for path in Path(papers.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def pinned() -> list[Callable[..., Any]]:
    """The classes and functions whose defaults a setting leaves out. One that no paper uses has no
    stored runs."""
    named = names_in_papers()
    entries = [*METHODS.items(), *SHIFTS.items()]
    used = [made for name, made in entries if {name, made.__name__} & named]
    return [*used, LocalTraining, Population, *functions()]


def defaults(made: Callable[..., Any]) -> Defaults:
    """The defaults of a dataclass or a function, as JSON has them; values without a default are
    left out."""
    return {name: plain(value) for name, value in _defaults(made)}


def _defaults(made: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    if not dataclasses.is_dataclass(made):
        options = inspect.signature(made).parameters.values()
        yield from (
            (o.name, o.default) for o in options if o.default is not inspect.Parameter.empty
        )
        return
    for own in dataclasses.fields(made):
        if own.default_factory is not dataclasses.MISSING:
            yield own.name, own.default_factory()
        elif own.default is not dataclasses.MISSING:
            yield own.name, own.default


def today() -> dict[str, Defaults]:
    """The table as the code has it."""
    return {made.__name__: defaults(made) for made in pinned()}


def write() -> None:
    """Write the table, a class or function a line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(today().items())
    )
    STORE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def stored() -> dict[str, Defaults]:
    """The table of the stored runs."""
    return json.loads(STORE.read_text(encoding="utf-8"))


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The defaults that are changed or gone, in words; a new one is neither."""
    return [
        f"{name} = {json.dumps(value)} is now {json.dumps(now[name]) if name in now else 'gone'}"
        for name, value in before.items()
        if name not in now or json.dumps(now[name]) != json.dumps(value)  # as text: 1 is not true
    ]


@pytest.mark.parametrize("made", pinned(), ids=lambda made: made.__name__)
def test_defaults_are_those_of_the_stored_runs(made: Callable[..., Any]) -> None:
    table = stored()
    assert made.__name__ in table, (
        "without a line in defaults.json; write it again by the command at the top"
    )
    changed = changes(table[made.__name__], defaults(made))
    assert not changed, (
        f"{made.__name__}: {'; '.join(changed)}. Raise the `revision` of the cells that use it (of "
        "a question, name it in its fixed values), so that no older run is shown; then write "
        "defaults.json again by the command at the top"
    )


def test_every_cell_of_the_catalogue_is_found() -> None:
    """By the keys of its jobs. Jobs of questions have no table."""
    found = {(cell.table, cell.setting.row, cell.column) for cell in cells()}
    keys = [job.key for paper in PAPERS.values() for job in paper.jobs() if "table" in job.key]
    assert keys and {(key["table"], key["row"], key["column"]) for key in keys} <= found


def test_no_two_of_them_have_one_name() -> None:
    assert len({made.__name__ for made in pinned()}) == len(set(pinned()))


def test_defaults_that_only_questions_use_are_pinned_too() -> None:
    """Advice has digits; planted clusters and PANM have ``planted``."""
    assert not {"digits", "planted"} & {cell.setting.data for cell in cells()}
    assert {"digits", "planted", "load", "femnist_candidate", "mlp"} <= today().keys()


@dataclass
class Swaps:
    name: str
    probability: float = 0.05
    clusters: tuple[int, ...] = (1, 2)
    rounds: dict[int, int] = field(default_factory=lambda: {3: 4})


def swaps(name: str, *, probability: float | None = None, coded: bool = False) -> None:
    """A function with two options."""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Swaps, {"probability": 0.05, "clusters": [1, 2], "rounds": {"3": 4}}),
        (swaps, {"probability": None, "coded": False}),
    ],
)
def test_defaults_are_read_from_dataclasses_and_functions(
    made: Callable[..., Any], expected: Defaults
) -> None:
    assert defaults(made) == expected == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"a": 1, "b": None}, []),
        ({"b": None, "new": 3, "a": 1}, []),
        ({"a": 2, "b": None}, ["a = 1 is now 2"]),
        ({"a": True, "b": None}, ["a = 1 is now true"]),
        ({"a": 1}, ["b = null is now gone"]),
        ({"a": "1", "b": False}, ['a = 1 is now "1"', "b = null is now false"]),
    ],
)
def test_a_changed_or_removed_default_is_named_and_a_new_one_is_not(
    now: Defaults, expected: Iterable[str]
) -> None:
    assert changes({"a": 1, "b": None}, now) == expected
