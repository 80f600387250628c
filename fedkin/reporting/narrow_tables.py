"""Fits tables to a narrow terminal by dropping whole columns; numbers are never cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 1000  # characters: more than any table has


def fits(table: Table, console: Console) -> bool:
    """Whether a table fits on a console unchanged.

    Args:
        table: to be printed.
        console: to print it on.
    """
    measured = Measurement.get(console, console.options.update(width=_WIDEST), table)
    return measured.maximum <= console.width


def fit(table: Table, console: Console, droppable: Sequence[str]) -> Table:
    """Drop columns until a table fits on a console; the caption names them.

    Args:
        table: the table, changed in place.
        console: to print it on.
        droppable: heads of the columns that may be dropped, in this order.

    Returns:
        The table.
    """
    caption = table.caption
    # A caption is wrapped, so it needs no width.
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
        lines.append(f"no room here for {', '.join(left_out)}")
    table.caption = "\n".join(lines) or None
    table.caption_justify = "left"
    return table
