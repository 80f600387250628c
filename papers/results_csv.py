"""papers/results.csv: all numbers of the tables, one row a number.

It has the published numbers, ours, and those of variants, other readings of the data and other
draws, which no page shows. ``pandas.read_csv("papers/results.csv")`` reads it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean, stdev

from papers import collective_section
from papers.catalogue import PAPERS, Paper, Table
from papers.collective_test import testable
from papers.number_text import at_most_four_decimals
from papers.prediction import LEAST_RUNS, p_value, prediction_interval
from papers.reproduction_marks import POINTS, ComparedNumber, Results
from papers.table_request import plain

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
    "symbol",
    "mark",
    "counted",
    "in_test",
    "p",
    "deviation",
    "command",
)


def text(results: Mapping[str, Results]) -> str:
    """The content of the file.

    Args:
        results: stored runs, by paper.
    """
    return written(COLUMNS, _rows(results))


def written(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as CSV, with a head.

    Args:
        columns: of the head, in their order.
        rows: each with all columns.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
    return out.getvalue()


def _rows(results: Mapping[str, Results]) -> Iterator[dict[str, str]]:
    numbers = [
        (paper, table, number)
        for paper in PAPERS.values()
        for table in paper.tables
        for number in table.numbers(results.get(paper.name, []))
    ]
    group_of = _groups([number for _, _, number in numbers])
    for paper, table, number in numbers:
        yield _row(paper, table, number, group_of.get(id(number), ""))
    for paper in PAPERS.values():
        for table in paper.tables:
            if table.more:
                for number in table.more(results.get(paper.name, [])):
                    yield _row(paper, table, number, group="")


def _groups(numbers: Sequence[ComparedNumber]) -> dict[int, str]:
    """The group of the collective test that a number is in, by the number's identity; none for
    numbers that are not tested."""
    groups = collective_section.groups_of([n for n in numbers if n.unit == POINTS])
    return {
        id(number): name
        for name, of_group in groups.items()
        if name != collective_section.AS_CODED
        for number in testable(of_group)
    }


def _row(paper: Paper, table: Table, number: ComparedNumber, group: str) -> dict[str, str]:
    lower, upper = interval(number)
    p = p_value(number.printed, number.runs) if group and number.printed is not None else None
    return {
        "paper": paper.page_name or paper.name,
        "table": table.name,
        "row": number.row,
        "column": number.column,
        "unit": number.unit,
        "printed": number.published,
        "mean": number.ours if not number.runs else at_most_four_decimals(mean(number.runs)),
        "sd": at_most_four_decimals(stdev(number.runs)) if len(number.runs) > 1 else "",
        "seeds": str(number.seeds),
        "draws": str(number.draws) if number.draws else "",
        "lower": at_most_four_decimals(lower),
        "upper": at_most_four_decimals(upper),
        "last_round": at_most_four_decimals(number.last),
        "symbol": number.symbol,
        "mark": str(number.mark),
        "counted": str(number.counts),
        "in_test": group,
        "p": at_most_four_decimals(p),
        "deviation": number.deviation,
        "command": command(table, number),
    }


def interval(number: ComparedNumber) -> tuple[float | None, float | None]:
    """The 95% prediction interval of one more run; None where there are too few runs."""
    if len(number.runs) < LEAST_RUNS:
        return None, None
    return prediction_interval(number.runs)


def command(table: Table, number: ComparedNumber) -> str:
    """The command that prints a number's row from the stored runs, after making missing ones. With
    ``--out`` and a new folder it makes all of them again.

    Args:
        table: of the number.
        number: its row may be none that runs have, such as a mean of several: then the command is
            the whole table's.
    """
    whole = f"fedkin reproduce {table.name}"
    row = plain(number.row)
    if row not in {plain(job.row) for job in table.jobs}:
        return whole
    return f'{whole} --rows "{row}"'
