"""Consoles that print names of users as they are."""

from __future__ import annotations

from rich.console import Console


def plain_console(stderr: bool = False) -> Console:
    """A console without markup, emoji codes and highlights: a label "[ill]" and sizes 5:100:3 are
    printed as they are.

    Args:
        stderr: whether it prints to standard error.
    """
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
