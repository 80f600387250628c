"""``make results`` on a fresh clone: the committed pages and figures, byte for byte, from the
committed runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from papers import __main__ as program
from papers import findings
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
        program.write(folder)
    return folder


def test_the_pages_are_all_that_are_committed(written: Path) -> None:
    assert PAGES == sorted(path.name for path in written.glob("*.md"))
    assert {"results.md", "results-panm.md", "results-inventory.md"} < set(PAGES)


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


def test_the_command_behind_a_finding_prints_it_from_stored_runs_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    learned, _, _ = (DOCS / "results.md").read_text().partition("## How much was reproduced")
    sentences = [line for line in learned.splitlines() if re.search(COMMAND, line)]
    assert len(sentences) >= findings.FIVE
    for sentence in sentences:
        (command,) = re.findall(COMMAND, sentence)
        output = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
        assert output.exit_code == 0, output.output
        result = json.loads(output.stdout)
        assert result["ran"] == 0 and any(number["seeds"] for number in result["numbers"]), command
        texts = [
            re.sub(r"^(\d+\.|\*) ", "", sentence).startswith(text) for text in result["findings"]
        ]
        assert texts.count(True) == 1, command


def test_nothing_is_left_out_of_the_committed_pages() -> None:
    assert "Left out of every count" not in (DOCS / "results.md").read_text()
