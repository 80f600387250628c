"""The pages of docs/papers keep their word: their code runs, and the objects, options, pictures and
numbers that they name exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import fedkin
from tests.docs.code_blocks import ROOT, run_page, skipped
from tests.docs.code_blocks import read as parse
from tests.docs.readability import LONGEST, lengths, page_words

DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "papers").glob("*.md"))
WORDS = range(700, 1501)
HEADINGS = (
    "The idea in a picture",
    "The algorithm, step by step",
    "Where the code does each step",
    "Options for each variant",
    "Differences from ",
    "Run it",
    "What we measured",
    "Next",
)
# FlexCFL's bytes with a newcomer's first model: (15,120 + 940) / 12,000 models.
COMPUTED = {"1.34"}

on_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def section(page: Path, heading: str) -> str:
    """The text below a heading of the second level, by the beginning of the heading."""
    parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    (found,) = [part for part in parts[1:] if part.startswith(heading)]
    return found.partition("\n")[2]


def test_every_paper_has_its_page() -> None:
    assert [page.stem for page in PAGES] == ["athena", "fedgroup", "fedsim", "flexcfl", "panm"]


@on_each_page
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)
    assert not skipped(parse(page))


@on_each_page
def test_it_has_all_parts_in_their_order(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
    assert len(headings) == len(HEADINGS)
    for heading, beginning in zip(headings, HEADINGS, strict=True):
        assert heading.startswith(beginning)
    assert 1 <= len(re.findall(r"^\* \[", section(page, "Next"), re.MULTILINE)) <= 4


@on_each_page
def test_it_is_short_and_so_are_its_sentences(page: Path) -> None:
    text = page.read_text()
    assert page_words(text) in WORDS
    assert max(lengths(text)) <= LONGEST


@on_each_page
def test_its_links_and_its_picture_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve()
        assert target.is_file() and target.is_relative_to(DOCS), link
        assert not heading or heading in anchors(target), link
    assert f"(../images/idea-{page.stem}.svg)" in section(page, "The idea in a picture")
    assert f"`python -m papers.ideas {page.stem}`" in text


def anchors(page: Path) -> set[str]:
    """Headings as GitHub and the site make addresses of them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@on_each_page
def test_every_object_of_the_code_exists(page: Path) -> None:
    names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", section(page, "Where the code does each step"))
    assert len(names) >= 10
    for name in names:
        assert named_object(name) is not None, name


def named_object(name: str) -> Any:
    """What a dotted name below ``fedkin`` stands for; fails where it does not exist."""
    module = fedkin.__name__
    parts = name.split(".")
    while parts and importlib.util.find_spec(f"{module}.{parts[0]}"):
        module = f"{module}.{parts.pop(0)}"
        if not hasattr(importlib.import_module(module), "__path__"):
            break
    found: Any = importlib.import_module(module)
    for part in parts:
        found = getattr(found, part)
    return found


@on_each_page
def test_every_option_exists_and_takes_its_value(page: Path) -> None:
    calls = re.findall(r"`(fk\.\w+\([^`]*\))`", section(page, "Options for each variant"))
    assert len(calls) >= 8
    for call in calls:
        check_call(call)


def check_call(text: str) -> None:
    """A call of the library names options that there are; a method is made with its values."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    called = getattr(fedkin, call.func.attr)
    names = {keyword.arg for keyword in call.keywords}
    if dataclasses.is_dataclass(called):
        assert names <= {field.name for field in dataclasses.fields(called)}, text
        eval(text, {"fk": fedkin})
    else:
        assert names <= inspect.signature(called).parameters.keys(), text


@on_each_page
def test_its_measured_numbers_are_those_of_the_results(page: Path) -> None:
    results = [path for path in DOCS.rglob("*.md") if path.parent != page.parent]
    published = set(re.findall(r"\d+\.\d+", "".join(path.read_text() for path in results)))
    text = section(page, "What we measured")
    numbers = set(re.findall(r"\d+\.\d+", text)) - COMPUTED
    assert numbers and not numbers - published
    assert f"](../results-{page.stem}.md)" in text


def test_a_wrong_name_or_option_is_found() -> None:
    with pytest.raises(AttributeError):
        named_object("methods.fedgroup.FedGroup.no_such_step")
    with pytest.raises(AssertionError):
        check_call("fk.FedGroup(no_such_option=1)")
    with pytest.raises(fedkin.FedkinError):
        check_call('fk.FedGroup(centers="nowhere")')
