"""The section of ``benchmarks.advise_seeds`` in a page."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.advise_seeds import BEGIN, END, section, write_section


def test_the_section_stands_only_where_there_are_answers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}{END}\nafter\n")
    write_section(page, tmp_path)
    assert page.read_text() == f"before\n\n{BEGIN}{END}\nafter\n"
    answers = {"0": "one shared model", "1": "clusters", "2": "one shared model"}
    (tmp_path / "loans.json").write_text(json.dumps(answers))
    for _ in range(2):
        write_section(page, tmp_path)
        text = page.read_text()
        assert text == f"before\n\n{BEGIN}{section(tmp_path)}{END}\nafter\n"
        assert text.count("## Other seeds") == 1
        assert "| loans | one shared model | 2 of 3 seeds | 1 x clusters |" in text
