"""The report's section on a comparison: its table with the best in bold, and the significance of all differences."""

from __future__ import annotations

from typing import NamedTuple

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.tables import rows_of
from fedkin.reporting.comparison_tables import PLACES, best_rows, findings, heads, table_notes, texts
from fedkin.reporting.html.json_values import Json

_NAMES = {
    "final": "final accuracy",
    "best": "best accuracy",
    "bottom": "bottom 10% of clients",
    "validation": "best on validation",
}


class ComparisonSection(NamedTuple):
    """Tables (heading, heads, rows, the places [row, column] in bold, notes) and findings in words."""

    tables: list[Json]
    findings: list[str]


def comparison_section(comparison: Comparison | None) -> ComparisonSection:
    """The section of a comparison; empty where there is none."""
    if comparison is None:
        return ComparisonSection([], [])
    by = comparison.by
    tables = [_methods(comparison, by)]
    pairs = [[*_setting(comparison, row["setting"]), *_pair(row)] for row in rows_of(comparison.differences(by))]
    if pairs:
        columns = ["method", "against", "seeds", f"{_NAMES[by]}, points", "95% interval", "p", "difference"]
        columns = [*_setting(comparison, "setting"), *columns]
        tables.append({"heading": "Statistical significance", "heads": columns, "rows": pairs, "bold": [], "notes": []})
    return ComparisonSection(tables, findings(comparison, by))


def _methods(comparison: Comparison, by: str) -> Json:
    """One row per setting and method."""
    rows = best_rows(comparison, by)
    first = [*_setting(comparison, "setting"), "method", "seeds"]
    column = len(first) + PLACES[by]
    return {
        "heading": "Comparison",
        "heads": [*first, *heads(comparison)],
        "rows": [
            [*_setting(comparison, row["setting"]), row["method"], str(row["seeds"]), *texts(row)] for row, _ in rows
        ],
        "bold": [[place, column] for place, (row, best) in enumerate(rows) if row["method"] in best],
        "notes": table_notes(comparison, by),
    }


def _setting(comparison: Comparison, cell: str) -> list[str]:
    """A cell of the column of settings; none where there is one setting."""
    return [cell] if len(comparison.settings) > 1 else []


def _pair(row: Json) -> list[str]:
    """A difference of two methods, in percentage points."""
    names = ("difference", "low", "high")
    gain, low, high = (None if row[name] is None else f"{100 * row[name]:+.1f}" for name in names)
    interval = "-" if low is None else f"{low} to {high}"
    p = "-" if row["p"] is None else f"{row['p']:.2g}"
    return [row["method"], row["against"], str(row["seeds"]), gain or "-", interval, p, row["verdict"]]
