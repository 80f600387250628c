"""How an object shows itself: a few lines of text, and a small table in a notebook."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import SupportsInt

MOST_CLIENTS = 20  # that a message names
LISTED = 4  # names that are listed; further ones are counted


def shell_command(*words: object) -> str:
    """A command as it is typed into a shell: words with spaces and the like are quoted."""
    return shlex.join(str(word) for word in words)


def html_table(title: str, rows: Mapping[str, object], columns: Sequence[str] = ()) -> str:
    """A small table as HTML; what stands in it is escaped.

    Args:
        title: stands above it.
        rows: by their names, a value each, or a tuple of values.
        columns: their heads, without that of the names; none for no line of heads.
    """
    head = _row("th", ["", *columns]) if columns else ""
    body = "".join(
        _row("td", value if isinstance(value, tuple) else (value,), name)
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _row(tag: str, cells: Iterable[object], name: str | None = None) -> str:
    left = ' style="text-align:left"'
    first = "" if name is None else f"<th{left}>{escape(name)}</th>"
    following = "".join(f"<{tag}{left}>{escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{first}{following}</tr>"


def model_text(kind: str, name: str, facts: Mapping[str, str]) -> str:
    """A model in three lines.

    Args:
        kind: its class.
        name: its name.
        facts: ``ModelSpec.facts``.
    """
    return (
        f"{kind} {name!r}: {facts['parameters']}\n"
        f"  {facts['arrays']}\n"
        f"  last layer: {facts['last layer']}"
    )


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: ``1 client``, ``1,000 clients``.

    Args:
        number: how many.
        noun: of one.
        plural: of any other number; None for the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Iterable[object]) -> str:
    """The first names, and how many more there are: ``a, b, c, d and 6 more``."""
    names = names if isinstance(names, Sequence) else list(names)
    text = ", ".join(map(str, names[:LISTED]))
    unlisted = len(names) - LISTED
    return f"{text} and {unlisted:,} more" if unlisted > 0 else text


def client_list(clients: Iterable[SupportsInt], names: Sequence[str] | None = None) -> str:
    """Clients as messages name them: by their names where they have some, else by their positions.

    Args:
        clients: their positions.
        names: of all clients; None, or too few, where they have none.
    """
    positions = [int(client) for client in clients]
    shown = [
        names[client] if names and client < len(names) else str(client)
        for client in positions[:MOST_CLIENTS]
    ]
    return ", ".join(shown) + (" ..." if len(positions) > MOST_CLIENTS else "")
