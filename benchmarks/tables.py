"""Measured tables in hand-written pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def put(page: Path, command: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Replace the table after ``<!-- command -->`` in a page.

    Args:
        page: the file.
        command: the text of the comment.
        head: column headings.
        rows: the cells.
    """
    lines = [head, ["---"] * len(head), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    mark = f"<!-- {command} -->\n"
    text, count = re.subn(rf"{re.escape(mark)}(\|.*\n)*", lambda _: mark + table, page.read_text())
    if count != 1:
        raise ValueError(f"{page} has {count} places for {command}")
    page.write_text(text)


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between two marks of a page.

    Args:
        page: the file.
        begin: the first mark; it stays.
        end: the second mark; it stays.
        text: what stands between them.

    Raises:
        ValueError: a mark is not there, or more than once, or the second is above the first: the
            page stays as it is.
    """
    content = page.read_text()
    for mark in (begin, end):
        if content.count(mark) != 1:
            raise ValueError(f"{page} has {content.count(mark)} places for {mark.strip()}")
    before, rest = content.split(begin)
    if end not in rest:
        raise ValueError(f"{page} has {end.strip()} above {begin.strip()}")
    page.write_text(f"{before}{begin}{text}{end}{rest.split(end)[1]}")


def table_in(page: Path, command: str) -> str:
    """The text of the table after ``<!-- command -->`` in a page; empty if there is none.

    Args:
        page: the file.
        command: the text of the comment.
    """
    table = re.search(rf"{re.escape(f'<!-- {command} -->')}\n((?:\|.*\n)*)", page.read_text())
    return table[1] if table else ""


def rows_in(page: Path, command: str) -> dict[str, list[str]]:
    """The rows of the table after ``<!-- command -->`` in a page, by their first cell.

    Args:
        page: the file.
        command: the text of the comment.
    """
    lines = table_in(page, command).splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row for row in rows}
