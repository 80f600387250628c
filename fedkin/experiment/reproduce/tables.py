"""Cells and tables in Markdown, from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from fedkin.experiment.reproduce.recipe import Cell, Setting

Measured = Sequence[dict[str, Any]]


def of(measured: Measured, table: str, row: str, column: str, figure: str) -> list:
    """One figure of all seeds of a cell, in the order of the seeds."""
    runs = [m for m in measured if (m["table"], m["row"], m["column"]) == (table, row, column)]
    return [m[figure] for m in sorted(runs, key=lambda m: m["seed"]) if figure in m]


def share(measured: Measured, cells: Sequence[Cell], margin: float = 1.5) -> str:
    """How many of the published cells came out within a margin of percentage points."""
    known = [cell for cell in cells if cell.published is not None]
    runs = [(c.published, of(measured, c.table, c.setting.row, c.column, "best")) for c in known]
    gaps = [100 * mean(best) - published for published, best in runs if best and published is not None]
    close, above = sum(abs(gap) <= margin for gap in gaps), sum(gap > margin for gap in gaps)
    return (
        f"{len(gaps)} of {len(known)} cells were run: {close} came out within {margin} points of the paper, {above} "
        f"above and {len(gaps) - close - above} below it."
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

    def entry(setting: Setting, column: str) -> str:
        if (setting.row, column) not in published:
            return ""
        ours, number = (
            percent(of(measured, cells[0].table, setting.row, column, figure)),
            published[setting.row, column],
        )
        return ours + (f"<br>*{number if number is not None else 'none'}*" if with_paper and column in printed else "")

    lines = [
        [s.row, *(entry(s, c) for c in columns), seeds(measured, [c for c in cells if c.setting == s])] for s in rows
    ]
    return markdown(["", *columns, "seeds"], lines)


def by_classes(measured: Measured, published: Mapping[str, Sequence[float | int]], distance: str) -> str:
    """Table I of both papers: FedAvg's clients with more and more classes, and the ``distance`` of their solutions."""
    names = (f"{distance}_mean", f"{distance}_variance", "best", "median", "rounds_to_85")
    head = ["classes", "discrepancy, mean", "variance", "best accuracy (%)", "median (%)", "rounds to 85%"]
    forms: list[Callable[[list], str]] = [number, number, percent, percent, number]
    rows = []
    for classes, printed in published.items():
        ours = [form(of(measured, "I", classes, "FedAvg", name)) for name, form in zip(names, forms, strict=True)]
        rows.append([classes, *(f"{o}<br>*{p}*" for o, p in zip(ours, printed, strict=True))])
    return markdown(head, rows)


def percent(values: list) -> str:
    """Mean and range, in percent."""
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
