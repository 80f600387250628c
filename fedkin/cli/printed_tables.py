"""Prints tables of the commands: text left, numbers right."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

# The first column of a table is not wrapped up to this width, in characters.
_WHOLE = 16


def print_table(frame: Any, title: str) -> None:
    """Print a DataFrame as a table, without its index."""
    print_rows(frame.columns, frame.itertuples(index=False), title)


def print_rows(
    columns: Iterable[Any], rows: Iterable[Iterable[Any]], title: str, unbroken: Container[Any] = ()
) -> None:
    """Print a table.

    Args:
        columns: column headings.
        rows: rows with a value for each column; digits of integers are grouped by thousands.
        title: title above the table.
        unbroken: columns that are never wrapped, even on a narrow terminal.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from fedkin.measures.number_texts import numeric_columns
    from fedkin.reporting.terminal import plain_console

    out = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    cells = [[_cell(value) for value in row] for row in rows]
    longest = max((len(row[0]) for row in cells if row), default=0)
    numeric = numeric_columns(cells)
    for number, column in enumerate(columns):
        # The first column is not wrapped, because broken names are hard to read.
        width = min(longest, _WHOLE) if number == 0 else None
        out.add_column(
            str(column),
            justify="right" if numeric and numeric[number] else "left",
            overflow="fold",
            min_width=width,
            no_wrap=column in unbroken,
        )
    for row in cells:
        out.add_row(*row)
    plain_console().print(out)


def _cell(value: Any) -> str:
    """A value of a table as text; digits of integers are grouped by thousands."""
    return f"{value:,}" if isinstance(value, int) else str(value)
