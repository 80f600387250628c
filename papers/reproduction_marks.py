"""A published number, ours, and the mark: reproduced or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean
from typing import Any

from papers.prediction import LEAST_RUNS, LEVEL, p_value
from papers.recipe import Cell

Results = Sequence[dict[str, Any]]
MARGIN = 1.5  # percentage points within which a number counts as reproduced
RATIO_MARGIN = 0.02  # of a printed ratio, within which ours counts as reproduced
POINTS = "points"


class Mark(StrEnum):
    """Whether a published number was reproduced."""

    REPRODUCED = "reproduced"
    IN_INTERVAL = "differs, inside the interval of one more run"
    OUTSIDE = "differs, outside the interval of one more run"
    NOT_REPRODUCED = "differs, no interval"  # too few runs, or runs without a value
    FAILED = "the printed statement fails"
    NO_NUMBER = "no number in the paper"
    NOT_RUN = "not run"


SYMBOLS = {
    Mark.REPRODUCED: "✓",
    Mark.IN_INTERVAL: "~",
    Mark.OUTSIDE: "✗",
    Mark.NOT_REPRODUCED: "≠",
    Mark.FAILED: "✗",
    Mark.NO_NUMBER: "",
    Mark.NOT_RUN: "",
}
LEGEND = (
    "✓ within 1.5 points (or by the rule of the table); ~ farther, and inside the 95% interval of "
    "one more run; ✗ outside this interval, or a printed statement that fails; ≠ farther, without "
    "an interval"
)


@dataclass(frozen=True)
class ComparedNumber:
    """One published number and ours. ``difference`` is ours less theirs, in ``unit``; None where it
    does not apply. ``deviation`` is why our run is not the paper's (fewer rounds, other data): such
    a number is not counted. ``runs`` are the values behind ours, ``variant_of`` the column that
    this one is a variant of."""

    row: str
    column: str
    published: str
    ours: str
    difference: float | None
    mark: Mark
    unit: str = POINTS
    seeds: int = 0
    deviation: str = ""
    runs: tuple[float, ...] = ()
    variant_of: str = ""
    draws: int = 0  # number of draws of the data behind the runs
    last: float | None = None  # the same figure in the last round, if ours is of another round
    table: str = ""  # the name of its table in the catalogue

    @property
    def printed(self) -> float | None:
        """The published number; None where it is none."""
        try:
            return float(self.published)
        except ValueError:
            return None

    @property
    def value(self) -> float | None:
        """Ours; None where it was not run, or where there is no published number to compare it
        with."""
        printed = self.printed
        return None if printed is None or self.difference is None else printed + self.difference

    @property
    def exact(self) -> float:
        """Ours with all its digits, if there is a published number or runs; else with the digits
        that are shown."""
        if self.value is not None:
            return self.value
        return mean(self.runs) if self.runs else float(self.ours)

    @property
    def counts(self) -> bool:
        """Whether the number counts in the share at the top of the page (percentage points)."""
        return self.unit == POINTS and not self.deviation and self.mark != Mark.NO_NUMBER

    @property
    def symbol(self) -> str:
        """The mark in a table: in brackets where the number is not counted."""
        sign = SYMBOLS[self.mark]
        return f"({sign})" if sign and self.deviation else sign


def values_of(results: Results, table: str, row: str, column: str, figure: str) -> list:
    """One figure of all seeds of a cell, in the order of the seeds.

    Args:
        results: stored runs.
        table: of the cell.
        row: of the cell.
        column: of the cell.
        figure: the key in a run; runs without it are left out.
    """
    # Most runs are of another column, so that the first comparison decides.
    runs = [m for m in results if m["column"] == column and m["row"] == row and m["table"] == table]
    return [m[figure] for m in sorted(runs, key=lambda m: m["seed"]) if figure in m]


def figures_by_seed(
    results: Results, table: str, row: str, column: str, figure: str
) -> dict[int, Any]:
    """One figure of each seed of a cell.

    Args:
        results: stored runs.
        table: of the cell.
        row: of the cell.
        column: of the cell.
        figure: the key in a run; runs without it, or without a value, are left out.
    """
    return {
        line["seed"]: line[figure]
        for line in results
        if (line.get("table"), line.get("row"), line.get("column")) == (table, row, column)
        and line.get(figure) is not None
    }


def figures_of(results: Results, cell: Cell, figure: str) -> list:
    """One figure of all seeds of a cell, as from ``values_of``."""
    return values_of(
        results=results,
        table=cell.table,
        row=cell.setting.row,
        column=cell.column,
        figure=figure,
    )


def average(values: Sequence[float | int | None]) -> float | None:
    """The mean of the values that are not None; None where all are."""
    numbers = [value for value in values if value is not None]
    return float(mean(numbers)) if numbers else None


def mark_within(
    published: float | int | None,
    ours: float | None,
    margin: float,
    runs: Sequence[float] = (),
) -> Mark:
    """The mark of a number that should lie within a margin.

    Args:
        published: the paper's; None: it prints none.
        ours: None: not run.
        margin: largest difference, in the number's unit.
        runs: the values that ours is the mean of.
    """
    if published is None:
        return Mark.NO_NUMBER
    if ours is None:
        return Mark.NOT_RUN
    if near(published, ours, margin):
        return Mark.REPRODUCED
    if len(runs) < LEAST_RUNS:
        return Mark.NOT_REPRODUCED
    return Mark.OUTSIDE if p_value(float(published), runs) < LEVEL else Mark.IN_INTERVAL


def near(published: float | None, ours: float, margin: float) -> bool:
    """Whether two numbers are within a margin; 91.5 is within 1.5 of 90 in any arithmetic.

    Args:
        published: None is near nothing.
        ours: a number.
        margin: largest difference.
    """
    return published is not None and abs(ours - published) <= margin + 1e-9


def mark_of_statement(true: bool | None) -> Mark:
    """The mark of a statement; None: not run."""
    if true is None:
        return Mark.NOT_RUN
    return Mark.REPRODUCED if true else Mark.FAILED


def compare_number(
    row: str,
    column: str,
    published: float | None,
    ours: float | None,
    *,
    margin: float = MARGIN,
    unit: str = POINTS,
    seeds: int = 0,
    deviation: str = "",
    runs: Sequence[float] = (),
    variant_of: str = "",
    draws: int = 0,
    last: float | None = None,
) -> ComparedNumber:
    """A published number and ours, with the mark.

    Args:
        row: of the table.
        column: of the table.
        published: the paper's number; None: it prints none.
        ours: None: not run.
        margin: largest difference that counts as reproduced, in ``unit``.
        unit: percentage points, or a word for another.
        seeds: number of seeds in the mean of ours.
        deviation: why our run is not the paper's.
        runs: the values that ours is the mean of.
        variant_of: the column that this one is a variant of.
        draws: number of draws of the data behind the runs.
        last: the mean of the same figure in the last round, if ours is of another round.
    """
    gap = None if published is None or ours is None else ours - published
    mark = mark_within(published, ours, margin, runs)
    shown = f"{ours:.2f}" if unit == POINTS and ours is not None else digits(ours)
    return ComparedNumber(
        row=row,
        column=column,
        published=digits(published),
        ours=shown,
        difference=gap,
        mark=mark,
        unit=unit,
        seeds=seeds,
        deviation=deviation,
        runs=tuple(runs),
        variant_of=variant_of,
        draws=draws,
        last=last,
    )


def digits(value: float | int | None) -> str:
    """At most four significant digits; empty for None."""
    return "" if value is None else f"{value:.4g}"
