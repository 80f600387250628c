"""How an object shows itself: a few lines of text, and a small table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

LISTED = 4  # names that are listed before the rest is counted


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A title, and a table with a row per entry, as HTML; what stands in them is escaped."""
    body = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: ``1 client``, ``1,000 clients``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Iterable[object]) -> str:
    """The first names, and how many more there are: ``a, b, c, d and 6 more``."""
    names = [str(name) for name in names]
    rest = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {rest:,} more" if rest > 0 else "")
