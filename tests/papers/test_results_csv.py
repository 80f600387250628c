"""papers/results.csv: one row a number, which pandas reads."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from papers.results_csv import COLUMNS, text

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
    assert row.command == 'fedkin reproduce fedgroup-table3 --rows "MNIST-MCLR"'


def test_no_number_is_there_twice() -> None:
    frame = pd.read_csv(io.StringIO(text({})))
    assert not frame.duplicated(["table", "row", "column"]).any()
    assert set(frame.paper) == {
        "fedgroup",
        "flexcfl",
        "fedsim",
        "athena",
        "planted",
        "advise",
        "peers",
    }
