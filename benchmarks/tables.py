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
