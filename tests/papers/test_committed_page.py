"""``make results`` on a fresh clone: the committed pages and figures, byte for byte, from the
committed runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from papers import __main__ as program
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("results*.md"))
COMMAND = r"`(fedkin reproduce \S+ [^`]*--stored)`"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages and their figures, written into a separate folder."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "images").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        program.write(docs=folder, tables=folder)
    return folder


def test_the_pages_are_all_that_are_committed(written: Path) -> None:
    assert PAGES == sorted(path.name for path in written.glob("*.md"))
    assert {"results.md", "results-panm.md"} < set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_committed_one(written: Path, name: str) -> None:
    ours, committed = ((folder / name).read_bytes() for folder in (written, DOCS))
    pairs = zip(ours.split(b"\n"), committed.split(b"\n"), strict=False)
    # A few, for people.
    assert [f"line {n}" for n, (a, b) in enumerate(pairs, 1) if a != b][:3] == []
    assert ours == committed, f"`make results` writes another page than docs/{name}"


def test_the_figures_are_the_committed_ones(written: Path) -> None:
    figures = {path.name: path.read_bytes() for path in (written / "images").iterdir()}
    texts = "".join((DOCS / name).read_text() for name in PAGES)
    shown = set(re.findall(r"\(images/([\w.-]+)\)", texts))
    assert set(figures) == shown and shown
    assert [
        name
        for name, content in figures.items()
        if (DOCS / "images" / name).read_bytes() != content
    ] == []


@pytest.mark.parametrize("name", ["results.csv", "claims.csv"])
def test_a_csv_is_the_committed_one(written: Path, name: str) -> None:
    assert (written / name).read_bytes() == (ROOT / "papers" / name).read_bytes()


def test_measured_sections_of_the_methods_are_the_committed_ones(written: Path) -> None:
    """No number of "What we measured" in docs/papers is older than the store."""
    names = sorted(path.name for path in (written / "papers").glob("*.md"))
    assert names == sorted(path.name for path in (DOCS / "papers").glob("*.md")) and names
    assert [
        name
        for name in names
        if (written / "papers" / name).read_bytes() != (DOCS / "papers" / name).read_bytes()
    ] == []


def test_no_sentence_of_the_pages_is_long() -> None:
    for name in PAGES:
        text = (DOCS / name).read_text()
        prose = [line for line in text.splitlines() if not line.startswith(("|", "![", "#"))]
        blocks = re.split(r"\n\s*\n|\n(?=\* )", "\n".join(prose))
        sentences = [s for block in blocks for s in re.split(r"(?<=[.:!?])\**\s", block)]
        assert [s for s in sentences if len(re.findall(r"\S*\w\S*", s)) > 40] == [], name


def test_nothing_is_left_out_of_the_committed_pages() -> None:
    assert "Left out of every count" not in (DOCS / "results.md").read_text()


def _words(name: str) -> int:
    """The words of a page; the marks of tables are none."""
    return sum(bool(re.search(r"\w", word)) for word in (DOCS / name).read_text().split())


def test_the_pages_are_short() -> None:
    of_pages = {name: _words(name) for name in PAGES}
    assert {name: words for name, words in of_pages.items() if words > 2500} == {}
    assert sum(of_pages.values()) <= 12_000
