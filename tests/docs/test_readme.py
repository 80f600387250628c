"""The README keeps its word: its code runs, its commands work, its links lead somewhere, and it is
short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import demo_figure
from tests.docs.code_blocks import ROOT, blocks, language_of, read, run_page, skipped

PAGE = ROOT / "README.md"
README = PAGE.read_text()


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order they are printed, with the files that are printed; only the number of rounds in
    these is cut."""
    monkeypatch.chdir(tmp_path)
    run_page(PAGE)
    assert (tmp_path / "runs/study/config.toml").is_file()


def test_no_block_is_left_out() -> None:
    languages = [language_of(block) for block in blocks(read(PAGE))]
    assert languages.count("python") >= 3 and languages.count("sh") >= 3 and not skipped(read(PAGE))


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    missing = [link for link in links if not (ROOT / link).exists()]
    assert links and not missing


def test_the_picture_equals_the_demonstrations(tmp_path: Path) -> None:
    """The same panels, titles, labels and legends; curves may differ in the last digits."""
    drawn = demo_figure.draw_demo(tmp_path / "run")
    committed = demo_figure.FILE.read_text()
    remedy = "draw it again: python -m tests.docs.demo_figure"
    assert demo_figure.words(committed) == demo_figure.words(drawn), remedy
    assert demo_figure.panels(committed) == demo_figure.panels(drawn) > 1, remedy
    title = "FedGroup (K = 3) / FedAvg on digits: 60 clients, 10 a round, seed 0"
    assert demo_figure.words(committed)[title] == 1
