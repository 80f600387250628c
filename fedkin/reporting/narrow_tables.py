"""Fitting of tables to a narrow terminal: whole columns are dropped, and numbers are never cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 1000  # characters, more than any table has


def fits(table: Table, console: Console) -> bool:
    """Whether a table fits on a console with all its columns.

    Args:
        table: a table of the library rich.
        console: the console on which it is printed.
    """
    measured = Measurement.get(console, console.options.update(width=_WIDEST), table)
    return measured.maximum <= console.width


def left_out_line(heads: Iterable[str]) -> str:
    """The line below a table about the columns that a narrow terminal leaves out, by their
    headings."""
    return f"columns left out on this narrow terminal: {', '.join(heads)}"


def fit(table: Table, console: Console, droppable: Sequence[str]) -> Table:
    """Drop columns until a table fits on a console. The caption lists the dropped columns.

    Args:
        table: a table of the library rich, which is changed in place.
        console: the console on which it is printed.
        droppable: headings of the columns that may be dropped, in this order.

    Returns:
        The same table.
    """
    caption = table.caption
    # The caption is wrapped to the table's width, so it cannot make the table too wide.
    table.caption = None
    left_out = []
    for head in droppable:
        if fits(table, console):
            break
        kept = [column for column in table.columns if column.header != head]
        if len(kept) < len(table.columns):
            left_out.append(" ".join(head.split()))
        table.columns = kept
    lines = [str(caption)] if caption else []
    if left_out:
        lines.append(left_out_line(left_out))
    table.caption = "\n".join(lines) or None
    table.caption_justify = "left"
    return table
