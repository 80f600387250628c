"""Cells and tables in Markdown, from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from papers import accuracy_numbers
from papers.recipe import Cell, Setting
from papers.reproduction_marks import MARGIN, Mark, Measured, of


def share(measured: Measured, cells: Sequence[Cell]) -> str:
    """How many of the published cells came out within a margin of percentage points."""
    found = [n for n in accuracy_numbers.best_accuracies(measured, cells) if n.mark != Mark.NO_NUMBER]
    ran = [n for n in found if n.difference is not None]
    close = sum(n.mark == Mark.REPRODUCED for n in ran)
    above = sum(n.mark != Mark.REPRODUCED and (n.difference or 0) > 0 for n in ran)
    return (
        f"{len(ran)} of {len(found)} cells were run: {close} came out within {MARGIN} points of the paper, {above} "
        f"above and {len(ran) - close - above} below it."
    )


def seeds(measured: Measured, cells: Sequence[Cell]) -> str:
    """How many seeds each of the cells of a row has."""
    counts = {len(of(measured, c.table, c.setting.row, c.column, "best")) for c in cells}
    return " or ".join(str(n) for n in sorted(counts))


def accuracies(measured: Measured, cells: Sequence[Cell], figure: str, with_paper: bool = True) -> str:
    """A table of percentages: settings down, methods across."""
    rows, columns = list(dict.fromkeys(c.setting for c in cells)), list(dict.fromkeys(c.column for c in cells))
    published = {(c.setting.row, c.column): c.published for c in cells}
    printed = {c.column for c in cells if c.published is not None}
    marks = (
        {(n.row, n.column): n.symbol for n in accuracy_numbers.best_accuracies(measured, cells)} if with_paper else {}
    )

    def entry(setting: Setting, column: str) -> str:
        if (setting.row, column) not in published:
            return ""
        ours = percent(of(measured, cells[0].table, setting.row, column, figure))
        number, mark = published[setting.row, column], marks.get((setting.row, column))
        if not with_paper or column not in printed:
            return ours
        return f"{ours}<br>*{number if number is not None else 'none'}*" + (f" {mark}" if mark else "")

    lines = [
        [s.row, *(entry(s, c) for c in columns), seeds(measured, [c for c in cells if c.setting == s])] for s in rows
    ]
    return markdown(["", *columns, "seeds"], lines)


def by_classes(measured: Measured, published: Mapping[str, Sequence[float | int]], distance: str) -> str:
    """Table I of both papers: FedAvg's clients with more and more classes, and the ``distance`` of their solutions."""
    forms: list[Callable[[list], str]] = [number, number, percent, percent, number]
    marks = {(n.row, n.column): n.symbol for n in accuracy_numbers.by_classes(measured, published, distance)}
    rows = []
    for classes, printed in published.items():
        row = [classes]
        for statistic, form, theirs in zip(accuracy_numbers.STATISTICS, forms, printed, strict=True):
            ours = form(of(measured, "I", classes, "FedAvg", statistic.figure.format(distance=distance)))
            row.append(f"{ours}<br>*{theirs}* {marks[classes, statistic.label]}".rstrip())
        rows.append(row)
    return markdown(["classes", *(statistic.label for statistic in accuracy_numbers.STATISTICS)], rows)


def percent(values: list) -> str:
    """Mean and range, in percent; a run without a complete round has no best."""
    values = [value for value in values if value is not None]
    if not values:
        return "not run"
    shown = f"**{100 * mean(values):.1f}**"
    return shown if len(values) == 1 else f"{shown} ({100 * min(values):.1f} - {100 * max(values):.1f})"


def number(values: list) -> str:
    """Mean and range; a run that never got there counts as such."""
    there = [v for v in values if v is not None]
    if not there:
        return "not run" if not values else "**never**"
    if len(values) == 1:
        return f"**{_digits(there[0])}**"
    never = f", {len(values) - len(there)} never" if len(there) < len(values) else ""
    return f"**{_digits(mean(there))}** ({_digits(min(there))} - {_digits(max(there))}{never})"


def _digits(value: float | int) -> str:
    """Three of them, or all of a large number's."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
