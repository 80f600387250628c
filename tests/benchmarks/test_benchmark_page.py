"""docs/benchmarks.md has the text of the program that writes it."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.report import PAGE


def test_no_measured_share_is_typed_into_the_text() -> None:
    """Shares of the machine are in tables, which their commands write again; an aim is no
    measurement."""
    assert re.findall(r"[^{}]{20}\d+ %", re.sub(r"\(aim: below \d+ %\)|about 5 %", "", PAGE)) == []


def test_the_page_has_the_text_of_its_program() -> None:
    """The text between the measured numbers, in its order."""
    page = Path("docs/benchmarks.md").read_text()
    place = 0
    for part in re.split(r"\{[^{}]*\}", PAGE):
        text = part.strip("\n")
        assert text in page[place:], text
        place = page.index(text, place) + len(text)
