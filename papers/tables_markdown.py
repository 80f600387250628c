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


def mean_and_range(values: list) -> str:
    """Mean and range. Runs that never reached the target (None) are not in the mean; the text then
    says how many runs are."""
    numbers = [v for v in values if v is not None]
    if not numbers:
        return "not run" if not values else "**never**"
    if len(values) == 1:
        return f"**{_digits(numbers[0])}**"
    of_those = f" in {len(numbers)} of {len(values)} runs" if len(numbers) < len(values) else ""
    return (
        f"**{_digits(mean(numbers))}{of_those}** ({_digits(min(numbers))} - "
        f"{_digits(max(numbers))})"
    )


def _digits(value: float | int) -> str:
    """Three significant digits, or all of a large number's."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
