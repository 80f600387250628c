"""The report's section on a comparison: the table of results, the tables of a sweep and the
significance tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.pairwise_tests import TOO_FEW
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import Column, rows_of
from fedkin.measures.measure import Measure
from fedkin.reporting.comparison_findings import findings
from fedkin.reporting.comparison_tables import (
    best_rows,
    cells,
    columns,
    further_tables,
    not_run,
    place_of,
    table_notes,
)
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.text_table import TextTable


class ComparisonSection(NamedTuple):
    """The tables of a comparison as JSON, and the findings as sentences. A table has a heading,
    column heads, rows, bold cells as [row, column], and notes. The last cell of a short row spans
    the other columns."""

    tables: list[Json]
    findings: list[str]


def comparison_section(comparison: Comparison | None) -> ComparisonSection:
    """The report's section about a comparison. It is empty if the report is not about a
    comparison."""
    if comparison is None:
        return ComparisonSection([], [])
    measure = comparison.measure()
    tables = [_methods(comparison, measure)]
    tables += [_of_texts(table) for table in further_tables(comparison).values()]
    differences = rows_of(comparison.differences())
    if differences:
        tables.append(_significance(comparison, measure, differences))
    return ComparisonSection(tables, findings(comparison))


def _of_texts(table: TextTable) -> Json:
    """A table of texts as JSON."""
    return {
        "heading": table.title,
        "heads": table.heads,
        "rows": table.rows,
        "bold": [list(place) for place in sorted(table.bold)],
        "notes": [table.note],
    }


def _significance(comparison: Comparison, measure: Measure, differences: Sequence[Json]) -> Json:
    """The table of tests, with a row for each tested pair of methods. The pairs that share too few
    seeds are only counted in a note."""
    shown = [row for row in differences if row["verdict"] != TOO_FEW]
    few = len(differences) - len(shown)
    gain = f"{measure.label}, points" if measure.points else measure.label
    heads = ["method", "against", "seeds", gain, "95% interval", "p", "difference"]
    notes = []
    if few:
        count = f"{few:,} of {len(differences):,} pairs" if shown else "All pairs"
        notes.append(
            f"{count} of methods share fewer than {LEAST_SEEDS} seeds and are not tested. Their "
            "differences are in differences.csv."
        )
    return {
        "heading": "Statistical significance",
        "heads": [*_setting(comparison, "setting"), *heads],
        "rows": [[*_setting(comparison, row["setting"]), *_pair(row, measure)] for row in shown],
        "bold": [],
        "notes": notes,
    }


def _methods(comparison: Comparison, measure: Measure) -> Json:
    """The table of results, with a row for each setting and method."""
    shown = columns(comparison)
    rows = best_rows(comparison)
    first = [*_setting(comparison, "setting"), "method", "seeds"]
    column = len(first) + place_of(measure, shown)
    return {
        "heading": "Comparison",
        "heads": [*first, *(column.head for column in shown)],
        "rows": [
            [
                *_setting(comparison, row["setting"]),
                row["method"],
                str(row["seeds"]),
                *_results(row, shown),
            ]
            for row, _ in rows
        ],
        "bold": [
            [place, column] for place, (row, best) in enumerate(rows) if row["method"] in best
        ],
        "notes": table_notes(comparison),
    }


def _results(row: Json, shown: Sequence[Column]) -> list[str]:
    """The cells of a row after its labels. If all runs of the row's method failed, one cell with
    the reason spans these columns."""
    reason = not_run(row)
    return cells(row, shown) if reason is None else [reason]


def _setting(comparison: Comparison, cell: str) -> list[str]:
    """The first cell of a table row, as a list: the label of the setting. The list is empty if the
    comparison has only one setting."""
    return [cell] if len(comparison.settings) > 1 else []


def _pair(row: Json, measure: Measure) -> list[str]:
    """The table row about the difference of two methods. Shares are in percentage points."""
    names = ("difference", "low", "high")
    gain, low, high = (
        None if row[name] is None else measure.gain_text(row[name]) for name in names
    )
    interval = "-" if low is None else f"{low} to {high}"
    p = "-" if row["p"] is None else f"{row['p']:.2g}"
    return [
        row["method"],
        row["against"],
        str(row["seeds"]),
        gain or "-",
        interval,
        p,
        row["verdict"],
    ]
