"""docs/benchmarks.md has the text of the program that writes it."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.report import PAGE


def test_the_page_has_the_text_of_its_program() -> None:
    """The text between the measured numbers, in its order."""
    page = Path("docs/benchmarks.md").read_text()
    place = 0
    for part in re.split(r"\{[^{}]*\}", PAGE):
        text = part.strip("\n")
        assert text in page[place:], text
        place = page.index(text, place) + len(text)
