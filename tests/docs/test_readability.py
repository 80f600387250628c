"""The sentences of the documentation are short, and no page is long."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.docs.readability import (
    LONGEST,
    ROOT,
    WORDS_OF_A_PAGE,
    lengths,
    sentences,
    words_to_read,
)

MEAN = 18  # words of a sentence, over all pages
SHORT = 30  # words; most sentences have fewer
SHARE_OF_SHORT = 0.9
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_sentence_is_long(page: Path) -> None:
    found = [text for text in sentences(page.read_text()) if len(text.split()) > LONGEST]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_is_long(page: Path) -> None:
    assert words_to_read(page.read_text()) <= WORDS_OF_A_PAGE


def test_sentences_of_all_pages_are_short() -> None:
    counts = [count for page in PAGES for count in lengths(page.read_text())]
    assert len(counts) > 1000
    assert statistics.mean(counts) <= MEAN
    assert sum(count < SHORT for count in counts) / len(counts) >= SHARE_OF_SHORT


def test_what_counts_as_a_sentence() -> None:
    text = """# A heading

One sentence with `a b c` in code. Another one
over two lines, e.g. with an abbreviation.

| a | table of many words |
|---|---|

* an item
* another item: [a link](x.md)

```sh
fedkin run --out runs/x
```
"""
    assert lengths(text) == [6, 9, 2, 4]
    # The table is looked up and not read; the block counts.
    assert words_to_read(text) == 2 + 8 + 9 + 2 + 4 + 4
