"""Why one of our numbers differs from the published one: a short list of causes, shown by a run or
possible.

Each number is assigned the first cause in this list that applies; the strongest comes first. Three
causes are shown by a run:

* *code*: a variant gives the published number, that is, its mean over the seeds is within 1.5
  points. The variant does what the authors' code does and the text does not say. The authors had
  one code. So only the variant counts that gives most numbers of its column, and more of them than
  ours does;
* *data*: another reading of how the authors' unpublished data were made gives the number in the
  same sense. The authors had one file. So only the reading counts that gives most numbers of the
  row, and more than ours;
* *authors*: the authors' own code, run again, gives our number, and not theirs.

Two causes are possible, and no run shows them:

* *spread*: the published number of one run or draw lies in the 95% prediction interval of a single
  run, from at least five runs (Student's t). Each run has its own seed and, if the authors' data
  are not published, its own draw of the data. The runs are those of the variant that counts, if it
  has five, and else ours. This shows only that they do not contradict the published number;
* *copy*: the paper prints the number in another row of the same table, under the same shift. It
  also does so for a second number of the column under another shift. Ours agree with both there, so
  the numbers may have been measured in that row.

Otherwise the cause is *unknown*. For *unknown* and for *spread* the table shows the attempts: the
number's variants and readings, with their results, and the interval of one more run of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import mean, stdev

from papers.reproduction_marks import MARGIN, Cause, ComparedNumber, Mark, near

LEAST_RUNS = 5  # for a prediction interval
LEAST_COPIES = 2  # equal numbers of two rows, to be one measurement: one may be chance
SHOWN = (Cause.CODE, Cause.DATA, Cause.AUTHORS)  # by a run
MEANINGS = {
    Cause.CODE: (
        "a variant that does what the authors' code does, and their text does not say, gives the "
        "paper's number"
    ),
    Cause.DATA: (
        "another reading of how the authors' unpublished data were made gives the paper's number"
    ),
    Cause.AUTHORS: (
        "the authors' own code, run again, gives our number and not the paper's; its result is "
        "quoted, and its log is not among the stored runs"
    ),
    Cause.SPREAD: (
        "possible, and no run shows it. The paper's number of one run (FedSim: of one draw of the "
        "data) lies in the 95% prediction interval of one more run or draw. The interval is from "
        f"at least {LEAST_RUNS} runs of ours, each from its own seed or on its own draw. "
        "They are runs of a variant (*spread, of the variant*) if it does what the authors' code "
        "does, gives more numbers of the column, and has enough runs"
    ),
    Cause.COPY: (
        "possible, and no run shows it: the paper prints the same numbers in another row of the "
        "table, where ours agree with them"
    ),
    Cause.UNKNOWN: "none of these; the last column shows the attempts",
}


@dataclass(frozen=True)
class Evidence:
    """Evidence for a table beyond its cells.

    ``readings``: rows that are other readings of a row's data. ``authors``: numbers that the
    authors' code gave when it was run again, by row and column, with how.
    """

    readings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    authors: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)


def explained(numbers: Sequence[ComparedNumber], evidence: Evidence) -> list[ComparedNumber]:
    """The numbers, those that differ with their cause.

    Args:
        numbers: of one table.
        evidence: beyond the table's cells.
    """
    return [
        _explained(number, numbers, evidence) if _needs_cause(number) else number
        for number in numbers
    ]


def _needs_cause(number: ComparedNumber) -> bool:
    return number.counts and number.mark == Mark.NOT_REPRODUCED and number.difference is not None


def _explained(
    number: ComparedNumber, numbers: Sequence[ComparedNumber], evidence: Evidence
) -> ComparedNumber:
    variant = _variant(number, numbers)
    reading = _reading(number, numbers, evidence)
    as_coded = variant if variant and len(variant.runs) >= LEAST_RUNS else number
    tried = _outcomes(number, numbers, evidence)
    for cause, shown_by, source in (
        (Cause.CODE, _given(variant, "column"), variant),
        (Cause.DATA, _given(reading, "row"), reading),
        (Cause.AUTHORS, _by_authors(number, evidence), None),
        (Cause.SPREAD, _by_spread(as_coded), as_coded),
        (Cause.COPY, _by_copy(number, numbers), None),
    ):
        if shown_by:
            mark = Mark.EXPLAINED if cause in SHOWN else Mark.NOT_CONTRADICTED
            if cause == Cause.SPREAD and tried:
                shown_by = f"{shown_by}; tried: {'; '.join(tried)}"
            return replace(number, mark=mark, cause=cause, shown_by=shown_by, source=source)
    if len(as_coded.runs) >= LEAST_RUNS:
        tried = [*tried, _one_more_run(as_coded)]
    shown_by = f"tried: {'; '.join(tried)}" if tried else ""
    return replace(number, cause=Cause.UNKNOWN, shown_by=shown_by, source=as_coded)


def _outcomes(
    number: ComparedNumber, numbers: Sequence[ComparedNumber], evidence: Evidence
) -> list[str]:
    """The variants and readings that were run for a number, and their results, in words.

    Args:
        number: ours.
        numbers: of the table.
        evidence: beyond the table's cells.
    """
    variants = [n for n in numbers if (n.row, n.variant_of) == (number.row, number.column)]
    rows = evidence.readings.get(number.row, ())
    readings = [
        n for n in numbers if n.row in rows and n.column == number.column and not n.variant_of
    ]
    outcomes = [f"{n.column}: {_runs(n)}" for n in variants if n.value is not None]
    return outcomes + [f"{n.row}: {_runs(n)}" for n in readings if n.value is not None]


def _runs(number: ComparedNumber) -> str:
    """The mean of a variant or a reading, and its number of runs."""
    return f"{number.value:.1f} ({_count(number)})"


def _count(number: ComparedNumber) -> str:
    """The number of runs behind a number, and of draws of the data if each draw counts once."""
    runs = f"{number.seeds} run{'s' if number.seeds > 1 else ''}"
    return f"{runs} on {len(number.runs)} draws" if number.seeds > len(number.runs) > 1 else runs


def _by_spread(number: ComparedNumber) -> str:
    """The interval for one more run, if it contains the published number."""
    if len(number.runs) < LEAST_RUNS or number.printed is None:
        return ""
    low, high = prediction_interval(number.runs)
    return _one_more_run(number) if low <= number.printed <= high else ""


def _one_more_run(number: ComparedNumber) -> str:
    """The interval for one more run in words, with the variant that has the runs."""
    low, high = prediction_interval(number.runs)
    whose = f"{number.column}, " if number.variant_of else ""
    return f"{whose}one more run: {low:.1f} to {high:.1f} ({_count(number)})"


def prediction_interval(runs: Sequence[float]) -> tuple[float, float]:
    """Where one more value would be with a probability of 95%, if all were normal: mean +- t s
    sqrt(1 + 1/n); not above 100, where no run is.

    Args:
        runs: at least two values, in percentage points.
    """
    from scipy.stats import t

    half = float(t.ppf(0.975, len(runs) - 1)) * stdev(runs) * sqrt(1 + 1 / len(runs))
    high = mean(runs) + half
    return mean(runs) - half, high if max(runs) > 100 else min(high, 100.0)


def _given(other: ComparedNumber | None, name: str) -> str:
    """The result of a variant or a reading, if it is the published number."""
    return f"{getattr(other, name)}: {_runs(other)}" if other and _is_near(other) else ""


def _variant(number: ComparedNumber, numbers: Sequence[ComparedNumber]) -> ComparedNumber | None:
    """The number in this place of the variant that gives most of the column's counted numbers, and
    more than ours."""
    plain = {n.row: n for n in numbers if n.column == number.column and n.counts}
    variants = [n for n in numbers if n.variant_of == number.column and n.row in plain]
    best = _best([(n.column, n, plain[n.row]) for n in variants])
    return next((n for n in variants if (n.row, n.column) == (number.row, best)), None)


def _reading(
    number: ComparedNumber, numbers: Sequence[ComparedNumber], evidence: Evidence
) -> ComparedNumber | None:
    """The number in this place of the reading of the data that gives most of the row's counted
    numbers, and more than ours."""
    rows = evidence.readings.get(number.row, ())
    plain = {n.column: n for n in numbers if n.row == number.row and n.counts}
    readings = [n for n in numbers if n.row in rows and not n.variant_of and n.column in plain]
    best = _best([(n.row, n, plain[n.column]) for n in readings])
    return next((n for n in readings if (n.row, n.column) == (best, number.column)), None)


def _best(pairs: Sequence[tuple[str, ComparedNumber, ComparedNumber]]) -> str:
    """The alternative that gives most published numbers, if it gives more than ours in the places
    where both were run; else an empty text.

    Args:
        pairs: the name of an alternative, its number, and ours in the same place.
    """
    names = [name for name, n, _ in pairs if _is_near(n)]
    best = max(dict.fromkeys(names), key=names.count, default="")
    ours = [plain for name, n, plain in pairs if name == best and n.value is not None]
    return best if names.count(best) > sum(map(_is_near, ours)) else ""


def _is_near(number: ComparedNumber) -> bool:
    return number.value is not None and near(number.printed, number.value, MARGIN)


def _by_copy(number: ComparedNumber, numbers: Sequence[ComparedNumber]) -> str:
    """The other row with the same numbers in this column under the same shifts, and our numbers
    there."""
    column = {n.row: n for n in numbers if n.counts and n.column == number.column}
    name, _, shift = number.row.partition(": ")
    for other in dict.fromkeys(row.partition(": ")[0] for row in column):
        same = [kind for kind in _shifts(column, name) if _is_copy(column, name, other, kind)]
        if shift in same and len(same) >= LEAST_COPIES and other != name:
            return (
                f"{other}: {column[f'{other}: {shift}'].value:.1f}; the same under "
                f"{' and '.join(same)}"
            )
    return ""


def _shifts(column: Mapping[str, ComparedNumber], name: str) -> list[str]:
    """The shifts under which a row is printed."""
    return [row.partition(": ")[2] for row in column if row.startswith(f"{name}: ")]


def _is_copy(column: Mapping[str, ComparedNumber], name: str, other: str, shift: str) -> bool:
    """Whether two rows have the same number under a shift, and ours is the second row's."""
    ours = column[f"{name}: {shift}"]
    theirs = column.get(f"{other}: {shift}")
    return (
        theirs is not None
        and ours.printed == theirs.printed is not None
        and theirs.mark == Mark.REPRODUCED
    )


def _by_authors(number: ComparedNumber, evidence: Evidence) -> str:
    """The number of the authors' code, where ours is near it and the published one is not."""
    value, how = evidence.authors.get((number.row, number.column), (None, ""))
    ours = number.value
    if value is None or ours is None or near(number.printed, value, MARGIN):
        return ""
    return f"{value:.1f} ({how})" if near(value, ours, MARGIN) else ""
