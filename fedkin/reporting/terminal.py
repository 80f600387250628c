"""Consoles that print users' names unchanged."""

from __future__ import annotations

from rich.console import Console


def plain_console(stderr: bool = False) -> Console:
    """A console without markup, emoji codes and highlighting, so "[ill]" and 5:100:3 are printed
    unchanged.

    Args:
        stderr: whether it prints to standard error.
    """
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
