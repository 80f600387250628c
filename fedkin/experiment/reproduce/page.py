"""docs/results.md, from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from fedkin.experiment.reproduce.fedgroup import METHODS, PUBLISHED, TABLE_I_PUBLISHED
from fedkin.experiment.reproduce.recipe import Setting

Measured = Sequence[dict[str, Any]]

ABOUT = """\
Written by `make results` from the runs in `docs/results/fedgroup.jsonl`, one line a run. Each cell shows **ours** (mean
over the seeds, lowest - highest) and the *paper's* number. A paper's score is the highest accuracy of any round, which
flatters a method that jumps about; ours is the same statistic, so that the two can be compared, and the accuracy of the
last round stands in a table of its own."""


def page(measured: Measured, notes: str) -> str:
    """The whole page: tables written from the measurements, and what a person has to say of them."""
    return (
        "\n\n".join(
            [
                "# Results: the papers' tables, measured again",
                ABOUT,
                "## FedGroup (arXiv 2010.06870)",
                share(measured),
                "### Table III: best accuracy (%)",
                table_iii(measured, "best", with_paper=True),
                "### The same runs: accuracy in the last round (%)",
                table_iii(measured, "final", with_paper=False),
                "### Table I: FedAvg on MNIST-MCLR by classes per client",
                table_i(measured),
                notes.strip(),
            ]
        )
        + "\n"
    )


def share(measured: Measured, margin: float = 1.5) -> str:
    """How many of the published cells came out within a margin of percentage points."""
    cells = [
        (row.row, column, value)
        for row, values in PUBLISHED.items()
        for column, value in zip(METHODS, values, strict=True)
        if value is not None and "own images" not in row.row
    ]
    gaps = [100 * mean(best) - value for r, c, value in cells if (best := of(measured, "III", r, c, "best"))]
    close = sum(abs(gap) <= margin for gap in gaps)
    above = sum(gap > margin for gap in gaps)
    return (
        f"Of the {len(cells)} cells of Table III that train on a CPU in reasonable time, {len(gaps)} were run: {close} "
        f"came out within {margin} points of the paper, {above} above and {len(gaps) - close - above} below it."
    )


def table_iii(measured: Measured, figure: str, with_paper: bool) -> str:
    """Settings down, methods across."""

    def cell(setting: Setting, column: str, published: float | None) -> str:
        ours = percent(of(measured, "III", setting.row, column, figure))
        return ours + (f"<br>*{published if published is not None else 'none'}*" if with_paper else "")

    rows = [
        [setting.row, *(cell(setting, c, v) for c, v in zip(METHODS, values, strict=True)), seeds(measured, setting)]
        for setting, values in PUBLISHED.items()
    ]
    return markdown(["", *METHODS, "seeds"], rows)


def table_i(measured: Measured) -> str:
    """Classes per client down; what the paper measures across."""
    names = ("discrepancy_mean", "discrepancy_variance", "best", "median", "rounds_to_85")
    head = ["classes", "discrepancy, mean", "variance", "best accuracy (%)", "median (%)", "rounds to 85%"]
    forms: list[Callable[[list], str]] = [number, number, percent, percent, number]
    rows = []
    for classes, published in TABLE_I_PUBLISHED.items():
        ours = [form(of(measured, "I", str(classes), "FedAvg", name)) for name, form in zip(names, forms, strict=True)]
        rows.append([str(classes), *(f"{o}<br>*{p}*" for o, p in zip(ours, published, strict=True))])
    return markdown(head, rows)


def of(measured: Measured, table: str, row: str, column: str, figure: str) -> list:
    """One figure of all seeds of a cell, in the order of the seeds."""
    runs = [m for m in measured if (m["table"], m["row"], m["column"]) == (table, row, column)]
    return [m[figure] for m in sorted(runs, key=lambda m: m["seed"])]


def seeds(measured: Measured, setting: Setting) -> str:
    """How many seeds each method of a row has."""
    counts = {len(of(measured, "III", setting.row, column, "best")) for column in METHODS}
    return " or ".join(str(n) for n in sorted(counts))


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
    never = f", {len(values) - len(there)} never" if len(there) < len(values) else ""
    return f"**{mean(there):.3g}** ({min(there):.3g} - {max(there):.3g}{never})"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
