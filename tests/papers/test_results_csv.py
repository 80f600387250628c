"""papers/results.csv: one row a number, which pandas reads."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from math import sqrt

import pandas as pd
import pytest
from scipy import stats

from papers.catalogue import Table, tables
from papers.results_csv import COLUMNS, command, text
from papers.table_request import plain, request_table
from tests.conftest import ROOT

RUNS = [
    {"table": "III", "row": "MNIST-MCLR", "column": "FedAvg", "seed": seed, "best": best}
    for seed, best in enumerate((0.88, 0.89, 0.90, 0.91, 0.92))
]


def test_pandas_reads_numbers_with_their_intervals() -> None:
    frame = pd.read_csv(io.StringIO(text({"fedgroup": RUNS})))
    assert tuple(frame.columns) == COLUMNS
    of_table = frame[frame.table == "fedgroup-table3"]
    row = of_table.query("row == 'MNIST-MCLR' and column == 'FedAvg'").iloc[0]
    assert (row.printed, row.seeds, row.draws) == ("89.3", 5, 5)
    assert (float(row["mean"]), row.sd) == (90, pytest.approx(1.5811, abs=1e-4))
    assert (row.lower, row.upper) == (
        pytest.approx(85.19, abs=0.01),
        pytest.approx(94.81, abs=0.01),
    )
    assert row.mark == "reproduced"
    assert (row.symbol, row.counted) == ("✓", True)
    assert row.in_test == "all methods except IFCA and FeSEM"
    assert row.command == 'fedkin reproduce fedgroup-table3 --rows "mnist-mclr"'


def test_no_number_is_there_twice() -> None:
    frame = pd.read_csv(io.StringIO(text({})))
    assert not frame.duplicated(["table", "row", "column"]).any()
    assert set(frame.paper) == {
        "fedgroup",
        "flexcfl",
        "fedsim",
        "athena",
        "planted",
        "advice",
        "panm",
    }


Row = dict[str, str]


@pytest.fixture(scope="module")
def committed() -> list[Row]:
    """The file in the checkout, which another test compares with the stored runs."""
    with (ROOT / "papers/results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "table", [table for _, table in tables().values()], ids=lambda table: table.name
)
def test_each_command_names_rows_that_runs_have(table: Table) -> None:
    for number in table.numbers([]):
        _, _, name, *options = shlex.split(command(table, number))
        request = request_table(name, rows=options[1:])
        assert request.table is table and request.jobs
        if options:
            assert {plain(job.row) for job in request.jobs} == {plain(number.row)}


def test_the_command_of_a_row_that_no_run_has_is_the_whole_tables() -> None:
    """Figure 10 prints a row for each alpha, and its runs have a row for each beta."""
    commands = {row["command"] for row in _rows_of("fedsim-figure10")}
    assert commands == {"fedkin reproduce fedsim-figure10"}


def _rows_of(table: str) -> list[Row]:
    """The rows of a table, where nothing was run."""
    return [row for row in csv.DictReader(io.StringIO(text({}))) if row["table"] == table]


def test_its_tests_are_the_collective_tests(committed: list[Row]) -> None:
    """The table of the page can be made from the columns ``in_test`` and ``p`` alone."""
    page = (ROOT / "docs/results-collective-test.md").read_text()
    numbers = Counter(row["in_test"] for row in committed if row["in_test"])
    outside = Counter(
        row["in_test"] for row in committed if row["in_test"] and float(row["p"]) < 0.05
    )
    assert len(numbers) == 7
    for name, count in numbers.items():
        line = rf"\| (\*\*)?{re.escape(name)}(\*\*)? \| {count} \| {outside[name]} \|"
        assert re.search(line, page), name


def test_p_is_of_the_printed_formula(committed: list[Row]) -> None:
    tested = [row for row in committed if row["in_test"] and row["paper"] != "fedsim"]
    checked = [row for row in tested if float(row["sd"]) > 0.3]  # the file has four decimals
    assert len(checked) > 100
    for row in checked:
        count = int(row["seeds"])
        spread = float(row["sd"]) * sqrt(1 + 1 / count)
        t = (float(row["printed"]) - float(row["mean"])) / spread
        p = 2 * stats.t.sf(abs(t), count - 1)
        assert float(row["p"]) == pytest.approx(p, abs=2e-3), row


def test_its_marks_are_those_of_the_pages(committed: list[Row]) -> None:
    """Each line of the tables of numbers, with its row, column and mark, is in the file."""
    symbols = {
        (row["table"], row["row"], row["column"], row["printed"]): row["symbol"]
        for row in committed
        if not row["deviation"]
    }
    found = 0
    for table, page in {"fedgroup-table3": "fedgroup", "flexcfl-table3": "flexcfl"}.items():
        lines = (ROOT / f"docs/results-{page}.md").read_text().partition("## Table III")[2]
        name = ""
        for line in lines.partition("\n\n✓")[0].splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) != 8 or cells[2] in ("paper", "---"):
                continue
            name = cells[0] or name
            assert symbols[table, name, cells[1], cells[2]] == cells[-1]
            found += 1
    assert found >= 29 + 39


def test_counted_rows_are_the_numbers_of_the_page(committed: list[Row]) -> None:
    """315 printed numbers but ATHENA-FL's 28, which have no run of the paper's size."""
    counted = [row for row in committed if row["counted"] == "True"]
    ran = Counter(row["symbol"] for row in counted if row["mark"] != "not run")
    page = (ROOT / "docs/results-collective-test.md").read_text()
    assert f"The papers print **{len(counted) + 28}** numbers" in page
    assert f"**{ran.total()}** were run with" in page
    assert ", ".join(f"{ran[sign]} {sign}" for sign in "✓~✗≠") in page


def test_numbers_of_fewer_than_five_runs_are_counted_and_not_tested(committed: list[Row]) -> None:
    """MNIST-CNN has one seed, and three where the first one was far off: the page says so."""
    few = [row for row in committed if row["row"].startswith("MNIST-CNN") and row["mean"]]
    assert few and all(int(row["seeds"]) in (1, 2, 3) for row in few)
    assert {row["counted"] for row in few} == {"True"} and {row["in_test"] for row in few} == {""}
    page = " ".join((ROOT / "docs/results-flexcfl.md").read_text().split())
    assert "They are counted, but the collective test leaves them out." in page
