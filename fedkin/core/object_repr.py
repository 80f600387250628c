"""Text and HTML representations of objects, and phrases for messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, SupportsInt

MOST_CLIENTS = 20  # most clients that a message names
LISTED = 4  # names that are listed; further ones are counted


def shell_command(*words: object) -> str:
    """A command as typed into a shell: words with special characters are quoted."""
    return shlex.join(str(word) for word in words)


def html_table(title: str, rows: Mapping[str, object], columns: Sequence[str] = ()) -> str:
    """A small HTML table, with escaped contents.

    Args:
        title: the caption.
        rows: for each row name, a value or a tuple of values.
        columns: column headers, without a header for the row names; empty: no header line.
    """
    head = _row("th", ["", *columns]) if columns else ""
    body = "".join(
        _row("td", value if isinstance(value, tuple) else (value,), name)
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _row(tag: str, cells: Iterable[object], name: str | None = None) -> str:
    """A row of an HTML table: its name, if any, and its cells in elements ``tag``."""
    left = ' style="text-align:left"'
    first = "" if name is None else f"<th{left}>{escape(name)}</th>"
    following = "".join(f"<{tag}{left}>{escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{first}{following}</tr>"


def model_text(kind: str, name: str, facts: Mapping[str, str]) -> str:
    """A three-line summary of a model: class and size, arrays, last layer.

    Args:
        kind: the model's class.
        name: the model's name.
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
        number: the number.
        noun: the singular.
        plural: the plural; None: the singular and an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Iterable[object]) -> str:
    """The first four names and the number of further ones: ``a, b, c, d and 6 more``."""
    names = names if isinstance(names, Sequence) else list(names)
    text = ", ".join(map(str, names[:LISTED]))
    unlisted = len(names) - LISTED
    return f"{text} and {unlisted:,} more" if unlisted > 0 else text


def client_list(clients: Iterable[SupportsInt], names: Sequence[str] | None = None) -> str:
    """Clients for messages: their names if they have any, otherwise their positions.

    Args:
        clients: positions of the clients.
        names: names of all clients by position; None if clients have no names. A client beyond the
            end of ``names`` is shown by its position.
    """
    positions = [int(client) for client in clients]
    shown = [
        names[client] if names and client < len(names) else str(client)
        for client in positions[:MOST_CLIENTS]
    ]
    return ", ".join(shown) + (" ..." if len(positions) > MOST_CLIENTS else "")


def of_client(clients: Any, row: int) -> str:
    """The client of a row, as a part of a message; empty if it is unknown.

    Args:
        clients: the client of each row of a table, blank where it has no name; None if it is
            unknown.
        row: number of the row.
    """
    text = client_of(clients, row)
    return f" ({text})" if text else ""


def client_of(clients: Any, row: int) -> str:
    """The client of a row in words, such as ``client north``; empty if it is unknown."""
    name = "" if clients is None else str(list(clients)[row])
    return f"client {name}" if name else ""
