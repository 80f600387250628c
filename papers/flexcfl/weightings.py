"""Which mean of a cluster's clients gives the numbers that FlexCFL prints of IFCA and FeSEM.

In the text all clients of a cluster count alike. The code of 30 July and 2 August 2021 weighs them
by their samples. The code of 16 August, six days before the paper, counts the first client of each
cluster and no other (morningD/FlexCFL at 924be14, 8f3da94 and ecdf300).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from papers.accuracy_numbers import best_accuracies
from papers.flexcfl.recipes import TABLE_III, TABLE_IV, VARIANTS
from papers.recipe import Cell
from papers.reproduction_marks import MARGIN, ComparedNumber, Results, near
from papers.tables_markdown import markdown

METHODS = ("IFCA", "FeSEM")
TABLES = ("III", "IV")
NAMES = ("all clients alike", "the first client", "by samples")


def columns(method: str) -> tuple[str, ...]:
    """The columns of a method, in the order of ``NAMES``."""
    return (method, *(column for column, (of, _) in VARIANTS.items() if of == method))


def distances(results: Results, method: str, table: str) -> list[list[float]]:
    """How far ours are from the printed numbers, in points: of each column of the method a list,
    row by row.

    Args:
        results: stored runs.
        method: IFCA or FeSEM.
        table: III or IV; rows that are not the paper's, or lack a column, are left out.
    """
    return [
        [abs(n.difference or 0.0) for n in of_column]
        for of_column in _numbers(results, method, table)
    ]


def _printed(table: str, names: Sequence[str]) -> list[Cell]:
    """The cells of these columns that reproduce a number of the paper."""
    of_table = TABLE_III if table == "III" else TABLE_IV
    return [
        c
        for c in of_table
        if c.column in names and c.published is not None and not c.setting.deviation
    ]


def _numbers(results: Results, method: str, table: str) -> list[list[ComparedNumber]]:
    names = columns(method)
    cells = _printed(table, names)
    shared = _of_shared_seeds([m for m in results if m["table"] == table and m["column"] in names])
    run = {(n.row, n.column): n for n in best_accuracies(shared, cells) if n.difference is not None}
    rows = dict.fromkeys(cell.setting.row for cell in cells)
    whole = [row for row in rows if all((row, name) in run for name in names)]
    return [[run[row, name] for row in whole] for name in names]


def _of_shared_seeds(results: Results) -> Results:
    """Of each row the runs of the seeds that all its columns have: other seeds are other draws of
    the data."""
    by_row: dict[str, dict[str, set[int]]] = {}
    for m in results:
        by_row.setdefault(m["row"], {}).setdefault(m["column"], set()).add(m["seed"])
    shared = {row: set.intersection(*of_columns.values()) for row, of_columns in by_row.items()}
    return [m for m in results if m["seed"] in shared[m["row"]]]


def table(results: Results) -> str:
    """The whole table, in Markdown."""
    lines = []
    for method in METHODS:
        for name in TABLES:
            of_columns = distances(results, method, name)
            lines.append([method, name, str(len(of_columns[0])), *map(_near, of_columns)])
    return markdown(["", "Table", "numbers", *NAMES], lines)


def _near(of_column: Sequence[float]) -> str:
    if not of_column:
        return "not run"
    return f"**{within(of_column)}**, {mean(of_column):.1f}"


def within(of_column: Sequence[float]) -> int:
    """Number of distances within the margin."""
    return sum(near(0.0, distance, MARGIN) for distance in of_column)
