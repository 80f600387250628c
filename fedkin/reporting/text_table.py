"""A table of texts that is written as Markdown and LaTeX, and printed on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedkin.analysis.latex import escaped, latex_head, tabular
from fedkin.measures.number_texts import numeric_columns
from fedkin.reporting.narrow_tables import fits

# Where a heading is broken into lines.
_BREAKS = (
    (" (", "\n("),
    (" to ", "\nto "),
    (" / ", " /\n"),
    (" of ", "\nof "),
    (" on ", "\non "),
    (" in ", "\nin "),
    (" against ", "\nagainst "),
    (" per ", "\nper "),
    (" than ", "\nthan "),
)


class TextTable(NamedTuple):
    """A table of texts.

    Attributes:
        title: the heading.
        heads: headings of the columns.
        rows: cells of each row.
        bold: the bold cells, as pairs (row, column).
        note: how to read the table; the caption in LaTeX.
        text_columns: number of the first columns that are text, not numbers. Of the others, those
            with words are text, too.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    bold: frozenset[tuple[int, int]]
    note: str
    text_columns: int = 1

    def markdown(self) -> str:
        """The table as Markdown, with its heading and its note."""
        rows = self._marked(self.rows, "**", "**")
        table = markdown_table(self.heads, rows, self.text_columns)
        return f"### {self.title}\n\n{table}\n\n{self.note}"

    def latex(self, label: str) -> str:
        """The table as LaTeX, for the package booktabs.

        Args:
            label: name for references, without ``tab:``.
        """
        cells = [[escaped(cell) for cell in row] for row in self.rows]
        first = self.heads[: self.text_columns]
        labels = self.heads[self.text_columns :]  # options and settings, as they are written
        return tabular(
            [*map(latex_head, first), *map(escaped, labels)],
            self._marked(cells, r"\textbf{", "}"),
            text_columns=self._places_of_text(),
            caption=f"{self.title}. {self.note}",
            label=label,
        )

    def rich(self, console: Console | None = None, with_note: bool = True) -> Table:
        """The table for a terminal.

        Args:
            console: console to print on. If the table is too wide for it, cells are broken into
                lines.
            with_note: whether the note follows the table.
        """
        whole = self._rich(True, with_note)
        return whole if console is None or fits(whole, console) else self._rich(False, with_note)

    def _rich(self, no_wrap: bool, with_note: bool) -> Table:
        """The table for a terminal, with cells of one line (``no_wrap``) or of several."""
        out = Table(
            title=Text(self.title, "table.title"),
            box=SIMPLE_HEAD,
            padding=0,
            show_edge=False,
            caption=Text(self.note, "table.caption") if with_note else None,
            caption_justify="left",
        )
        texts = self._places_of_text()
        for number, head in enumerate(self.heads):
            justify = "left" if number in texts else "right"
            out.add_column(Text(folded(head)), justify=justify, overflow="fold", no_wrap=no_wrap)
        for number, row in enumerate(self.rows):
            out.add_row(
                *(
                    Text(cell, "bold" if (number, column) in self.bold else "")
                    for column, cell in enumerate(row)
                )
            )
        return out

    def _places_of_text(self) -> list[int]:
        """The indices of the columns of text, which are aligned left."""
        numeric = numeric_columns(self.rows) or [True] * len(self.heads)
        return [
            place
            for place in range(len(self.heads))
            if place < self.text_columns or not numeric[place]
        ]

    def _marked(self, rows: Iterable[Sequence[str]], before: str, after: str) -> list[list[str]]:
        """The rows with marks around the bold cells. Empty cells stay empty."""
        return [
            [
                f"{before}{cell}{after}" if cell and (number, column) in self.bold else cell
                for column, cell in enumerate(row)
            ]
            for number, row in enumerate(rows)
        ]


def folded(head: str) -> str:
    """A column heading broken into several lines. An option is broken after its section."""
    head = re.sub(r"\b([a-z_]+\.)(?=[a-z_]+\b)", "\\1\n", head)
    for before, after in _BREAKS:
        head = head.replace(before, after)
    return head


def markdown_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1
) -> str:
    """A table as Markdown text. Columns of numbers are aligned right.

    Args:
        heads: headings of the columns.
        rows: cells of each row.
        text_columns: number of the first columns that are text, even if it looks like numbers.
    """
    cells = [list(row) for row in rows]
    # Bold numbers are numbers.
    numeric = numeric_columns([[cell.strip("*") for cell in row] for row in cells])
    numeric = numeric or [False] * len(heads)
    marks = ["---"] * text_columns
    marks += ["---:" if number else "---" for number in numeric[text_columns:]]
    lines = [heads, marks, *cells]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
