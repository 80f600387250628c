"""What a report says of a comparison: its tables, with the best in bold, and which differences hold."""

from __future__ import annotations

from typing import Any

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.tables import rows_of
from fedkin.config.comparison_grid import MEASURES
from fedkin.reporting.comparison_tables import HEADS, cells_in_words, differences_in_words, small_print, strong_rows

Json = dict[str, Any]
_NAMES = {"final": "final accuracy", "best": "best accuracy", "worst": "worst tenth"}


def tables(comparison: Comparison | None) -> tuple[list[Json], list[str]]:
    """A comparison's own tables, and which of its differences hold, in words; nothing where there is none.

    A table is its heading, heads, rows, the places [row, column] in bold and, below it, what the numbers are (small).
    """
    if comparison is None:
        return [], []
    by = comparison.by
    found = [_figures(comparison, by)]
    pairs = [_pair(row) for row in rows_of(comparison.differences(by))]
    if pairs:
        heads = ["setting", "method", "against", "seeds", f"{_NAMES[by]}, points", "95% interval", "p", "difference"]
        found.append({"heading": "Which differences hold", "heads": heads, "rows": pairs, "bold": [], "small": []})
    return found, differences_in_words(comparison, by)


def _figures(comparison: Comparison, by: str) -> Json:
    """One row per setting and method."""
    rows = strong_rows(comparison, by)
    first = ["setting", "method", "seeds"]
    column = len(first) + list(MEASURES).index(by)
    return {
        "heading": "The comparison",
        "heads": [*first, *HEADS],
        "rows": [[row["setting"] or "-", row["method"], str(row["seeds"]), *cells_in_words(row)] for row, _ in rows],
        "bold": [[place, column] for place, (row, strong) in enumerate(rows) if row["method"] in strong],
        "small": small_print(comparison, by),
    }


def _pair(row: Json) -> list[str]:
    """A difference of two methods, in percentage points."""
    gain, low, high = (
        None if row[name] is None else f"{100 * row[name]:+.1f}" for name in ("difference", "low", "high")
    )
    interval = "-" if low is None else f"{low} to {high}"
    p = "-" if row["p"] is None else f"{row['p']:.2g}"
    return [
        row["setting"] or "-",
        row["method"],
        row["against"],
        str(row["seeds"]),
        gain or "-",
        interval,
        p,
        row["verdict"],
    ]
