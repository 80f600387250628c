"""Why a number of ours differs from the published one: a short list of causes, each shown by runs.

A cause is looked for in this order, and the first that is shown is the number's:

* *code*: a run with what the authors' code does, and the text does not say, gives the published number;
* *spread*: the published number, of one run, lies among ours: each has its own seed (of the first models, cohorts and
  batches), and the highest accuracy of any round depends on it;
* *data*: the authors' file is not published, and ours is another draw: the published number lies among our runs on the
  draws and readings of it that we have;
* *authors*: the authors' own code, run again, does not give the published number either, but ours;
* else the cause is *unknown*.

*Gives* and *lies among* are to the margin of 1.5 points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from papers.reproduction_marks import MARGIN, Cause, ComparedNumber, Mark, near

MEANINGS = {
    Cause.CODE: "a run with what the authors' code does gives the paper's number",
    Cause.SPREAD: "the paper's number lies among our runs, which differ in their seed",
    Cause.DATA: "the authors' data are not published; the paper's number lies among our runs on other draws of them",
    Cause.AUTHORS: "the authors' own code, run again, gives our number and not the paper's",
    Cause.UNKNOWN: "not found",
}


@dataclass(frozen=True)
class Evidence:
    """What a table knows besides its own cells.

    ``readings``: rows that are other draws or readings of a row's data. ``draws``: rows whose runs have a draw of the
    data each, so that what differs between them are the data too. ``authors``: numbers that the authors' code gave when
    it was run again, by row and column, with how.
    """

    readings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    draws: frozenset[str] = frozenset()
    authors: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)


def explained(numbers: Sequence[ComparedNumber], evidence: Evidence) -> list[ComparedNumber]:
    """The numbers, those that differ with their cause.

    Args:
        numbers: of one table.
        evidence: what is known besides.
    """
    return [_explained(number, numbers, evidence) if _needs_cause(number) else number for number in numbers]


def _needs_cause(number: ComparedNumber) -> bool:
    return number.counts and number.mark == Mark.NOT_REPRODUCED and number.difference is not None


def _explained(number: ComparedNumber, numbers: Sequence[ComparedNumber], evidence: Evidence) -> ComparedNumber:
    for cause, shown_by in (
        (Cause.CODE, _by_code(number, numbers)),
        (Cause.DATA if number.row in evidence.draws else Cause.SPREAD, _by_runs(number)),
        (Cause.DATA, _by_readings(number, numbers, evidence)),
        (Cause.AUTHORS, _by_authors(number, evidence)),
    ):
        if shown_by:
            return replace(number, mark=Mark.EXPLAINED, cause=cause, shown_by=shown_by)
    return replace(number, cause=Cause.UNKNOWN)


def _by_code(number: ComparedNumber, numbers: Sequence[ComparedNumber]) -> str:
    """The variants that give the published number."""
    variants = [n for n in numbers if n.row == number.row and n.variant_of == number.column and n.value is not None]
    return "; ".join(f"{n.column}: {n.value:.1f}" for n in variants if near(number.printed, n.value or 0.0, MARGIN))


def _by_runs(number: ComparedNumber) -> str:
    """The range of our runs, where it holds the published number."""
    return f"our {len(number.runs)} runs: {_range(number.runs)}" if _among(number.printed, number.runs) else ""


def _by_readings(number: ComparedNumber, numbers: Sequence[ComparedNumber], evidence: Evidence) -> str:
    """The range over the readings of the data, where it holds the published number: of the method, or of a variant."""
    rows = (number.row, *evidence.readings.get(number.row, ()))
    variants = {n.column for n in numbers if n.row == number.row and n.variant_of == number.column}
    for column in (number.column, *sorted(variants)):
        runs = {n.row: n.runs for n in numbers if n.row in rows and n.column == column and n.runs}
        if len(runs) > 1 and _among(number.printed, [value for of_row in runs.values() for value in of_row]):
            name = "" if column == number.column else f"{column}; "
            return name + "; ".join(f"{row}: {_range(values)}" for row, values in runs.items())
    return ""


def _by_authors(number: ComparedNumber, evidence: Evidence) -> str:
    """The number that the authors' code gave, where ours is near it and the published one is not."""
    value, how = evidence.authors.get((number.row, number.column), (None, ""))
    if value is None or number.value is None or near(number.printed, value, MARGIN):
        return ""
    return f"{value:.1f} ({how})" if near(value, number.value, MARGIN) else ""


def _among(printed: float | None, runs: Sequence[float]) -> bool:
    """Whether a number lies between the lowest and the highest run, or near one; of one run nothing is known."""
    if printed is None or len(runs) < 2:
        return False
    return min(runs) - MARGIN <= printed + 1e-9 and printed - 1e-9 <= max(runs) + MARGIN


def _range(runs: Sequence[float]) -> str:
    return f"{min(runs):.1f}" if len(runs) == 1 else f"{min(runs):.1f} to {max(runs):.1f}"
