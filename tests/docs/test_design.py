"""The pages of the design are short, agree with the repository, and lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from fedkin.config.run import from_dict
from tests.docs.code_blocks import blocks, language_of, read
from tests.docs.readability import page_words
from tests.docs.test_docs import anchors
from tests.house.test_imports import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "docs" / "design.md"
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
MEMOS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
TWO_PAGES = 1100  # words
_FILE = re.compile(r"`((?:fedkin|papers|tests|benchmarks|examples)/[\w/.-]*)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def named(page: Path) -> str:
    """The name of a test's page: its folder and its file."""
    return f"{page.parent.name}/{page.name}"


@pytest.mark.parametrize("page", [DESIGN, *PAGES], ids=named)
def test_a_page_is_two_pages_at_most(page: Path) -> None:
    assert page_words(page.read_text()) <= TWO_PAGES


@pytest.mark.parametrize("page", [DESIGN, *PAGES, *MEMOS], ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = [name for name in _FILE.findall(page.read_text()) if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("page", [*PAGES, *MEMOS], ids=named)
def test_links_of_inner_pages_lead_to_pages_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in _LINK.findall(text):
        if link.startswith("http"):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT / "docs"), f"{link} is not on the site"
        assert not heading or heading in anchors(target), link


def test_the_configuration_that_the_design_shows_is_valid() -> None:
    document = read(ROOT / "docs" / "design" / "config.md")
    shown = [block.parsed for block in blocks(document) if language_of(block) == "toml"]
    assert len(shown) == 1
    assert from_dict(tomllib.loads(shown[0])).method.name == "fedgroup"


def test_the_design_names_every_package_and_every_page() -> None:
    text = DESIGN.read_text()
    for package in {name.split(".")[0] for name in PACKAGES if name}:
        assert f"`{package}/`" in text or f"`{package}.py`" in text, package
    linked = set(_LINK.findall(text))
    assert {f"design/{page.name}" for page in PAGES} <= {link.split("#")[0] for link in linked}


def test_the_list_of_decisions_has_every_memo() -> None:
    listed = set(_LINK.findall((ROOT / "docs" / "decisions" / "README.md").read_text()))
    assert {memo.name for memo in MEMOS if memo.name != "README.md"} <= listed
