"""On a narrow terminal whole columns are left out, and no number is cut."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from fedkin.reporting.narrow_tables import fit, fits


def a_table() -> Table:
    table = Table(caption="a note")
    for head in ("method", "final", "upload\n(MB)", "seconds"):
        table.add_column(head, no_wrap=True)
    table.add_row("FlexCFL", "81.25%", "1234.5", "12345.6")
    return table


def printed(width: int) -> str:
    console = Console(file=StringIO(), width=width)
    table = fit(a_table(), console, ("seconds", "upload\n(MB)", "nonsense"))
    assert fits(table, console) or width < 20
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("width", "shown", "note"),
    [
        (80, ["81.25%", "1234.5", "12345.6"], None),
        (36, ["81.25%", "1234.5"], "narrow terminal: seconds"),
        (24, ["81.25%"], "narrow terminal: seconds,"),
    ],
)
def test_columns_go_whole(width: int, shown: list[str], note: str | None) -> None:
    text = printed(width)
    assert "…" not in text and "FlexCFL" in text and "a note" in text
    assert [number for number in ("81.25%", "1234.5", "12345.6") if number in text] == shown
    assert (note in " ".join(text.split())) if note else "no room" not in text
