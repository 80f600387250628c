"""What was renamed since version 0.1: a message about an old name says what replaced it."""

from __future__ import annotations

from collections.abc import Iterable

from fedkin.core import errors

# (what it is, old name): new name. What it is: key, section, value, measure, method, model, data set, shift, table.
RENAMED: dict[tuple[str, str], str] = {
    ("measure", "worst"): "bottom",  # [compare] and --by: mean accuracy of the bottom 10% of clients
    ("table", "advise-kinds"): "advise-clusters",  # of fedkin reproduce
}


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name: what replaced it, or else the nearest known one, or else all of them.

    Args:
        kind: what it is a name of, as in ``RENAMED``.
        name: the unknown name.
        known: the names that are accepted in its place.
    """
    known = list(known)
    replacement = RENAMED.get((kind, name))
    if replacement in known:
        return f"{kind} {name!r} was renamed; use {replacement!r}"
    return errors.unknown(kind, name, known)
