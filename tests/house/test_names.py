"""One word for one thing: names of classes, and the nouns of the glossary."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import fedkin
from fedkin.core.requirements import Requirements
from fedkin.core.training import LocalTraining
from fedkin.methods import METHODS
from fedkin.options.base import Option
from fedkin.scenarios.shifts import SHIFTS
from tests.house.test_imports import FILES
from tests.syntax_trees import nodes_of

ROOT = Path(__file__).resolve().parents[2]

# Not in ``fedkin.__all__``, but authors of methods, options and tasks write with them.
OF_AUTHORS = ("Client", "Plan", "Reply", "Task")


def public_classes() -> dict[str, list[str]]:
    """Places of the classes without a leading underscore, by name."""
    places: dict[str, list[str]] = {}
    for path in FILES.values():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                places.setdefault(node.name, []).append(place)
    return places


def nouns() -> list[str]:
    """Names of public classes that stand for a concept of the library.

    Left out are classes with a place in another list or page: methods, shifts, options, errors,
    the optimizers of local training, and the parts of ``Requirements``.
    """
    elsewhere = {*METHODS.values(), *SHIFTS.values()}
    elsewhere |= {type(getattr(Requirements(), field.name)) for field in requirement_fields()}
    found: list[str] = [*OF_AUTHORS]
    for name in fedkin.__all__:
        value = getattr(fedkin, name)
        if not isinstance(value, type) or value in elsewhere:
            continue
        listed = issubclass(value, (Option, LocalTraining, Exception))
        if not listed or value in (Option, LocalTraining):
            found.append(name)
    return found


def requirement_fields() -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(Requirements)


def words_of(name: str) -> str:
    """The words of a class name: ``LocalTraining`` is "local training"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def explained(name: str, glossary: str) -> bool:
    """Whether a row of the glossary has the class: its words are the term, or it is named in it."""
    for row in re.findall(r"^\| .*\|$", glossary, re.MULTILINE):
        term = row.split("|")[1].strip().lower()
        if term.removesuffix("s") == words_of(name).removesuffix("s") or f"`{name}`" in row:
            return True
    return False


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: places for name, places in public_classes().items() if len(places) > 1}
    assert not shared, f"{len(shared)} names: {shared}"


def test_every_noun_of_the_library_is_in_the_glossary() -> None:
    """A separate row, such as "local training", or the class in backticks in a row, such as
    `SimulatedWorld` in the row of "world"."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    missing = [name for name in nouns() if not explained(name, glossary)]
    assert not missing, f"docs/glossary.md does not explain {missing}"


def test_the_nouns_are_concepts() -> None:
    found = set(nouns())
    assert {
        "State",
        "Task",
        "World",
        "Plan",
        "Cohort",
        "Run",
        "Option",
        "Method",
        "Measure",
    } < found
    assert found <= public_classes().keys()
    assert not {"IFCA", "SwapAll", "ClientDP", "ConfigError", "SGD", "MemoryNeeds"} & found


def test_a_class_is_found_by_its_words_or_its_name() -> None:
    glossary = "| word | meaning |\n|---|---|\n| local training | work |\n| run | as `Run` says |\n"
    assert explained("LocalTraining", glossary) and explained("Run", glossary)
    assert explained("World", glossary + "| worlds | clients, or a `SimulatedWorld` |\n")
    assert explained("SimulatedWorld", glossary + "| worlds | clients, or a `SimulatedWorld` |\n")
    assert not explained("Training", glossary) and not explained("Meaning", glossary)
