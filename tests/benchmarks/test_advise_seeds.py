"""The section of ``benchmarks.advise_seeds`` in a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.advise_seeds import BEGIN, END, section, write_section
from benchmarks.tables import put_between


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"before\n{END}after\n", "0 places for <!-- advise -->"),
        (f"before\n{BEGIN}old\n", "0 places for <!-- end of advise -->"),
        (f"{BEGIN}{END}{BEGIN}{END}", "2 places for <!-- advise -->"),
        (f"{END}{BEGIN}", "<!-- end of advise --> above <!-- advise -->"),
    ],
    ids=["no first mark", "no second mark", "twice", "in the other order"],
)
def test_a_page_without_its_marks_is_refused_and_stays_as_it_is(
    tmp_path: Path, text: str, words: str
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=words):
        put_between(page, BEGIN, END, "new\n")
    assert page.read_text() == text
