"""Notes on the results, written by hand, with numbers from the stored runs.

A place ``{TABLE; ROW; COLUMN}`` in a note is our number in that table of the catalogue, as compared
with the paper's. ``{TABLE; ROW; COLUMN; FIGURE}`` is the mean over the runs of one of their
figures, such as ``final``; with ``FIGURE range`` it is the lowest and the highest. ``{NAME}`` is a
number that is in no single cell, such as a gain (``papers.note_numbers``). Accuracies are in
percent. A note thus quotes no accuracy that no run has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import mean
from typing import TypeVar

from fedkin.core.errors import ConfigError, unknown
from papers.catalogue import Paper, Table
from papers.note_numbers import NUMBERS, Numbers
from papers.number_text import NOT_RUN
from papers.reproduction_marks import POINTS, Results

T = TypeVar("T")
PLACE = re.compile(r"\{([^{}]+)\}")
FRACTIONS = {
    "best",
    "final",
    "median",
    "bottom_decile",
    "moves_noticed",
    "shift_recall",
    "migration_recall",
}


def fill(note: str, paper: Paper, results: Results) -> str:
    """A note with its numbers.

    Args:
        note: the text, with places.
        paper: the places name its tables.
        results: its stored runs.

    Raises:
        ConfigError: a place that names no table, row or column, or no number.
    """
    numbers_of_note = NUMBERS[paper.name](results) if paper.name in NUMBERS else {}
    return PLACE.sub(lambda match: _number(match[1], paper, results, numbers_of_note), note)


def _number(place: str, paper: Paper, results: Results, numbers_of_note: Numbers) -> str:
    if ";" not in place:
        return _one("number", place.strip(), list(numbers_of_note.values()), list(numbers_of_note))
    name, row, column, *figure = [part.strip() for part in place.split(";")]
    table = _one("table", name, paper.tables, [each.name for each in paper.tables])
    return (
        _figure(table=table, row=row, column=column, figure=figure[0], results=results)
        if figure
        else _compared(table, row, column, results)
    )


def _compared(table: Table, row: str, column: str, results: Results) -> str:
    """Our number and the paper's."""
    numbers = table.numbers(results)
    number = _one("cell", f"{row}; {column}", numbers, [f"{n.row}; {n.column}" for n in numbers])
    if not number.ours:
        return NOT_RUN
    return f"{number.exact:.1f}" if number.unit == POINTS else number.ours


def _figure(table: Table, row: str, column: str, figure: str, results: Results) -> str:
    """The mean of a figure over the runs of a cell, or its range."""
    job = _one("cell", f"{row}; {column}", table.jobs, [f"{j.row}; {j.column}" for j in table.jobs])
    name, _, span = figure.partition(" ")
    factor = 100 if name in FRACTIONS else 1
    values = [
        factor * line[name] for line in results if job.matches(line) and line.get(name) is not None
    ]
    if not values:
        return NOT_RUN
    return (
        f"{_short(min(values))} to {_short(max(values))}"
        if span == "range"
        else _short(mean(values))
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def _one(kind: str, name: str, values: Sequence[T], names: Sequence[str]) -> T:
    """The value of a name; ConfigError where there is none."""
    if name not in names:
        raise ConfigError(f"a note on the results names {unknown(kind, name, names)}")
    return values[list(names).index(name)]
