"""Measured tables in pages that are otherwise written by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def put(page: Path, command: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Put a table in the place of the one that stands after ``<!-- command -->``."""
    lines = [head, ["---"] * len(head), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    mark = f"<!-- {command} -->\n"
    text, found = re.subn(rf"{re.escape(mark)}(\|.*\n)*", lambda _: mark + table, page.read_text())
    if found != 1:
        raise ValueError(f"{page} has {found} places for {command}")
    page.write_text(text)
