"""papers/results.csv: all numbers of the tables, one row a number.

It has the published numbers, ours, and those of variants, other readings of the data and other
draws, which no page shows. ``pandas.read_csv("papers/results.csv")`` reads it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from statistics import mean, stdev

from papers.catalogue import PAPERS, Table
from papers.prediction import LEAST_RUNS, prediction_interval
from papers.reproduction_marks import ComparedNumber, Results

COLUMNS = (
    "paper",
    "table",
    "row",
    "column",
    "unit",
    "printed",
    "mean",
    "sd",
    "seeds",
    "draws",
    "lower",
    "upper",
    "last_round",
    "mark",
    "deviation",
    "command",
)


def text(results: Mapping[str, Results]) -> str:
    """The content of the file.

    Args:
        results: stored runs, by paper.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([row[name] for name in COLUMNS] for row in _rows(results))
    return out.getvalue()


def _rows(results: Mapping[str, Results]) -> Iterator[dict[str, str]]:
    for paper in PAPERS.values():
        for table in paper.tables:
            for number in table.numbers(results.get(paper.name, [])):
                yield _row(paper.name, table, number)


def _row(paper: str, table: Table, number: ComparedNumber) -> dict[str, str]:
    lower, upper = interval(number)
    return {
        "paper": paper,
        "table": table.name,
        "row": number.row,
        "column": number.column,
        "unit": number.unit,
        "printed": number.published,
        "mean": number.ours if not number.runs else _digits(mean(number.runs)),
        "sd": _digits(stdev(number.runs)) if len(number.runs) > 1 else "",
        "seeds": str(number.seeds),
        "draws": str(number.draws) if number.draws else "",
        "lower": _digits(lower),
        "upper": _digits(upper),
        "last_round": _digits(number.last),
        "mark": str(number.mark),
        "deviation": number.deviation,
        "command": command(table, number),
    }


def interval(number: ComparedNumber) -> tuple[float | None, float | None]:
    """The 95% prediction interval of one more run; None where there are too few runs."""
    if len(number.runs) < LEAST_RUNS:
        return None, None
    return prediction_interval(number.runs)


def command(table: Table, number: ComparedNumber) -> str:
    """The command that makes the runs of a number's row again."""
    return f'fedkin reproduce {table.name} --rows "{number.row}"'


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
