"""Which mean gives FlexCFL's numbers: by hand, on runs that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from fedkin.methods import IFCA, FeSEM
from papers.flexcfl import recipes as flexcfl
from papers.flexcfl import weightings
from papers.recipe import Cell


def runs(column: str, by_row: dict[str, float], table: str = "III") -> list[dict[str, Any]]:
    return [
        {"table": table, "row": row, "column": column, "seed": 0, "best": best}
        for row, best in by_row.items()
    ]


MNIST = flexcfl.MNIST.row
SYNTHETIC = flexcfl.SYNTHETIC.row
FEMNIST = flexcfl.FEMNIST.row


def three_columns() -> list[dict[str, Any]]:
    """IFCA's printed 94.2 on MNIST and 91.3 on Synthetic; FEMNIST lacks a column, five labels are
    not the paper's."""
    return [
        *runs(
            "IFCA", {MNIST: 0.962, SYNTHETIC: 0.893, FEMNIST: 0.9, flexcfl.FEMNIST_FIVE.row: 0.5}
        ),
        *runs(
            "IFCA, first client", {MNIST: 0.942, SYNTHETIC: 0.898, flexcfl.FEMNIST_FIVE.row: 0.5}
        ),
        *runs(
            "IFCA, by samples",
            {MNIST: 0.957, SYNTHETIC: 0.924, FEMNIST: 0.9, flexcfl.FEMNIST_FIVE.row: 0.5},
        ),
    ]


def test_distances_from_the_printed_numbers() -> None:
    far = weightings.distances(three_columns(), "IFCA", "III")
    assert [sorted(of_column) for of_column in far] == [
        pytest.approx(sorted(expected)) for expected in ([2.0, 2.0], [0.0, 1.5], [1.5, 1.1])
    ]
    assert weightings.distances(three_columns(), "IFCA", "IV") == [[], [], []]


def test_only_seeds_that_all_three_have_count() -> None:
    """Other seeds of a row are other draws of its data."""
    more = [
        dict(run, seed=1, best=0.5)
        for run in three_columns()
        if run["column"] != "IFCA, by samples"
    ]
    assert weightings.distances([*three_columns(), *more], "IFCA", "III") == weightings.distances(
        three_columns(), "IFCA", "III"
    )


def test_the_table() -> None:
    lines = weightings.table(three_columns()).splitlines()[2:]
    assert lines[0] == "| IFCA | III | 2 | **0**, 2.0 | **2**, 0.8 | **2**, 1.3 |"
    assert lines[1] == "| IFCA | IV | 0 | not run | not run | not run |"
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("cells", "rows"),
    [(flexcfl.TABLE_III, 5), (flexcfl.TABLE_IV, 15)],
    ids=["no shift", "three shifts"],
)
def test_each_of_the_papers_rows_has_all_three_means(cells: list[Cell], rows: int) -> None:
    """IFCA's and FeSEM's rows, compared with one printed number, from cohorts drawn alike."""
    by_place = {(cell.setting, cell.column): cell for cell in cells}
    plain = [
        cell for cell in cells if cell.column in weightings.METHODS and not cell.setting.deviation
    ]
    assert len(plain) == 2 * rows
    for cell in plain:
        of_row = [by_place[cell.setting, column] for column in weightings.columns(cell.column)]
        made = {"IFCA": IFCA, "FeSEM": FeSEM}[cell.column]
        means = ("simple", "first_client", "examples")
        assert [each.method(3) for each in of_row] == [
            made(clusters=3, weighting=mean) for mean in means
        ]
        assert {(each.published, each.selection) for each in of_row} == {
            (cell.published, "round_robin")
        }
