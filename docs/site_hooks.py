"""Changes to all pages of the site while it is built.

A column of numbers is aligned right, and a table with many columns is set in smaller print, or with
upright heads. A column of sentences keeps its width on a phone. So a page's author need not think
of these. mkdocs runs this file as one of its
``hooks``.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

MANY_COLUMNS = 8  # a table with more is set in smaller print
# A table with more has heads of numbers that stand upright.
TOO_MANY_COLUMNS = 12
LONG_TEXT = 40  # characters; a column with a longer cell has sentences
LONGEST_NUMBER = 26  # characters; a longer cell is text, even if it begins with a number
SHARE_OF_NUMBERS = 0.6  # of a column's cells that have content
# Cells that say that there is no number.
EMPTY = {"", "-", "–", "none", "not run", "not set"}
# A number may follow a sign such as "x" or "<", and units or a second number may follow it.
NUMBER = re.compile(r"(x |[<>≥≤~±+-] ?)?[\d.,]+( ?(%|s|ms|MB|GB|kB|B)\b| ?%)?( ?[(±/+-].*|$)")


def on_config(config: Any) -> Any:
    """Add the treatment of tables to the extensions of Markdown."""
    config.markdown_extensions.append(TableLayout())
    return config


class TableLayout(Extension):
    """The extension of Markdown that sets the layout of tables."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown calls it by this name)
        md.treeprocessors.register(_Tables(md), "table_layout", 0)


class _Tables(Treeprocessor):
    """Aligns columns of numbers, and marks wide tables."""

    def run(self, root: ElementTree.Element) -> None:
        for table in root.iter("table"):
            rows = [list(row) for row in table.iter("tr")]
            if not rows:
                continue
            if len(rows[0]) > MANY_COLUMNS:
                table.set("data-wide", "very" if len(rows[0]) > TOO_MANY_COLUMNS else "")
            # Heads are wider than numbers; in a wide table all cells count.
            for row in rows if "data-wide" in table.attrib else rows[:1]:
                for cell in row:
                    cell.text = with_breaks(cell.text)
            for column in range(len(rows[0])):
                cells = [row[column] for row in rows if column < len(row)]
                align(cells)
                if len(rows[0]) > 2:  # two columns of sentences have room on a phone
                    mark_sentences(cells)


def with_breaks(text: str | None) -> str | None:
    """A cell's text, in which a line may end after an underscore or a plus sign."""
    return re.sub(r"([_+])(?=\w)", "\\1\u200b", text) if text else text


def align(cells: list[ElementTree.Element]) -> None:
    """Align a column right if it has numbers and its author has not aligned it.

    Args:
        cells: the column's cells; the first is its head.
    """
    texts = ["".join(cell.itertext()).strip() for cell in cells[1:]]
    if not has_numbers(texts):
        return
    for cell in cells:
        if "style" not in cell.attrib:
            cell.set("style", "text-align: right;")


def mark_sentences(cells: list[ElementTree.Element]) -> None:
    """Mark the cells of a column that has a long text, so that a phone does not show it one word a
    line.

    Args:
        cells: the column's cells; the first is its head.
    """
    if any(len("".join(cell.itertext())) > LONG_TEXT for cell in cells[1:]):
        for cell in cells:
            cell.set("data-long", "")


def has_numbers(texts: list[str]) -> bool:
    """Whether most cells of a column that have content are numbers, and none is a long text.

    Args:
        texts: the column's cells, without its head.
    """
    filled = [text for text in texts if text not in EMPTY]
    if not filled or max(len(text) for text in filled) > LONGEST_NUMBER:
        return False
    numbers = [text for text in filled if NUMBER.match(text)]
    return len(numbers) >= SHARE_OF_NUMBERS * len(filled)
