"""Cells and tables of the page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean


def percent(values: list) -> str:
    """Mean and range, in percent; a run without a complete round has no best."""
    values = [value for value in values if value is not None]
    if not values:
        return "not run"
    shown = f"**{100 * mean(values):.1f}**"
    return (
        shown
        if len(values) == 1
        else f"{shown} ({100 * min(values):.1f} - {100 * max(values):.1f})"
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
