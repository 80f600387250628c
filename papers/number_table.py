"""The table of a page: printed numbers and ours, one line a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import stdev

from papers.reproduction_marks import POINTS, SYMBOLS, ComparedNumber, Mark
from papers.tables_markdown import markdown

MOST_NAMED = 2
HEAD = ("", "", "paper", "ours", "SD", "seeds (draws)", "last round", "result")


def number_table(numbers: Sequence[ComparedNumber]) -> str:
    """The published numbers of a table as Markdown, and those that were not run in a sentence.

    Variants, other readings and shortened runs are left out: papers/results.csv has them.

    Args:
        numbers: of the table, ours and the paper's.
    """
    counted = [n for n in numbers if not n.deviation and n.mark != Mark.NO_NUMBER]
    ran = [n for n in counted if n.mark != Mark.NOT_RUN]
    without_run: dict[str, list[str]] = {}
    for n in counted:
        if n.mark == Mark.NOT_RUN:
            without_run.setdefault(n.row, []).append(n.column)
    of_row = Counter(n.row for n in counted)
    parts = []
    if ran:
        parts.append(markdown(_head(ran), _lines(ran)))
    if without_run:
        rows = [
            f"{row} ({'all ' if len(names) == of_row[row] else ''}{len(names)}{_named(names)})"
            for row, names in without_run.items()
        ]
        parts.append(f"Not run: {'; '.join(rows)}.")
    return "\n\n".join(parts)


def _named(names: Sequence[str]) -> str:
    """The columns of a row that were not run, where they are few."""
    return f": {', '.join(names)}" if len(names) <= MOST_NAMED else ""


def _head(numbers: Sequence[ComparedNumber]) -> list[str]:
    """The head, without the column of last rounds where no number has one."""
    return [*HEAD] if _have_last_round(numbers) else [name for name in HEAD if name != "last round"]


def _have_last_round(numbers: Sequence[ComparedNumber]) -> bool:
    return any(n.last is not None for n in numbers)


def _lines(numbers: Sequence[ComparedNumber]) -> list[list[str]]:
    lines = []
    row = ""
    for number in numbers:
        name = number.row if number.row != row else ""
        row = number.row
        last = ["" if number.last is None else f"{number.last:.1f}"]
        lines.append(
            [
                name,
                number.column,
                number.published,
                _ours(number),
                _spread(number),
                seeds_and_draws(number),
                *(last if _have_last_round(numbers) else []),
                SYMBOLS[number.mark],
            ]
        )
    return lines


def seeds_and_draws(number: ComparedNumber) -> str:
    """How many seeds are behind ours, and in brackets how many draws of the data if it is another
    number."""
    if number.draws in (0, number.seeds):
        return str(number.seeds)
    return f"{number.seeds} ({number.draws})"


def _ours(number: ComparedNumber) -> str:
    return f"{number.exact:.1f}" if number.unit == POINTS and number.value else number.ours


def _spread(number: ComparedNumber) -> str:
    if len(number.runs) < 2:
        return ""
    deviation = stdev(number.runs)
    return f"{deviation:.1f}" if number.unit == POINTS else f"{deviation:.3g}"
