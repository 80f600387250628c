"""Consoles that print text unchanged, without markup."""

from __future__ import annotations

from rich.console import Console


def plain_console(stderr: bool = False) -> Console:
    """A console without markup, emoji codes and highlighting, so that "[ill]" and 5:100:3 are
    printed unchanged.

    Args:
        stderr: whether the console prints to standard error.
    """
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
