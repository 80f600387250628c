"""Tables on a narrow terminal: whole columns are left out, and no number is cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 1000  # characters: more than any table has


def fits(table: Table, console: Console) -> bool:
    """Whether a table has room on a console as it is.

    Args:
        table: to be printed.
        console: to print it on.
    """
    return (
        Measurement.get(console, console.options.update(width=_WIDEST), table).maximum
        <= console.width
    )


def fit(table: Table, console: Console, droppable: Sequence[str]) -> Table:
    """A table without those of its columns that have no room on a console; its caption says which.

    Args:
        table: to be printed; it is changed.
        console: to print it on.
        droppable: heads of the columns that may be left out, the first ones first.

    Returns:
        The table.
    """
    caption, left_out = table.caption, []
    table.caption = None  # lines that are folded
    for head in droppable:
        if fits(table, console):
            break
        kept = [column for column in table.columns if column.header != head]
        left_out += [" ".join(head.split())] if len(kept) < len(table.columns) else []
        table.columns = kept
    lines = [caption] if caption else []
    lines += [f"no room here for {', '.join(left_out)}"] if left_out else []
    table.caption, table.caption_justify = "\n".join(map(str, lines)) or None, "left"
    return table
