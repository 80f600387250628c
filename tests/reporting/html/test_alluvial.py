"""The alluvial chart: flows, and migrations counted in every round."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.reporting.html.alluvial import OTHERS, Alluvial, alluvial, migrations, select_rounds
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput
from tests.reporting.written_runs import a_run, wandering


def moved(drawn: Alluvial) -> dict[tuple[int, int, int], int]:
    """(round of the column that they reach, from, to) -> how many."""
    return {
        (int(drawn.rounds[f.column + 1]), drawn.bands[f.source], drawn.bands[f.target]): f.count
        for f in drawn.flows
        if f.source != f.target
    }


def test_flows_are_migrations_between_columns() -> None:
    rows = np.array([[0, 0, 0, -1, 1]] * 3 + [[0, 1, 1, 0, 1]] * 4)
    drawn = alluvial(list(rows), [0, 1])
    assert drawn.bands == [0, 1, -1] and drawn.last == 6
    assert drawn.rounds.tolist() == [0, 3]
    assert drawn.sizes.tolist() == [[3, 1, 1], [2, 3, 0]]
    assert moved(drawn) == {(3, 0, 1): 2, (3, -1, 0): 1}
    assert drawn.ends[0] == 2  # they went between rounds 2 and 3


def test_every_client_is_in_every_column_and_every_flow_ends_where_its_band_is() -> None:
    rows = list(wandering(200, 30, 5, 0.1))
    drawn = alluvial(rows, [0, 1, 2])
    assert drawn.bands == [0, 1, 2, OTHERS]
    assert (drawn.sizes.sum(axis=1) == 200).all()
    assert [int((rows[r] > 2).sum()) for r in drawn.rounds] == drawn.sizes[:, 3].tolist()
    for column in range(len(drawn.rounds) - 1):
        flows = [f for f in drawn.flows if f.column == column]
        assert sum(f.count for f in flows) == 200
        for band in range(4):
            left = sorted(f.shape[0][1] for f in flows if f.source == band)
            right = sorted((f.shape[1][1], f.shape[2][1]) for f in flows if f.target == band)
            assert left[0] == pytest.approx(drawn.base[column, band])
            assert right[0][0] == pytest.approx(drawn.base[column + 1, band])
            assert right[-1][1] == pytest.approx(
                drawn.base[column + 1, band] + drawn.sizes[column + 1, band]
            )


def test_few_busy_rounds_are_all_columns_and_many_are_thinned() -> None:
    assert select_rounds(np.array([0, 0, 5, 0, 1, 0]), 40).tolist() == [0, 2, 4]
    assert select_rounds(np.zeros(9, np.int64), 40).tolist() == [0]
    even = select_rounds(np.array([0] + [1] * 300), 40)
    assert len(even) == 40 and even[-1] == 300 and set(np.diff(even)) <= {7, 8}
    burst = np.array([0] + [1] * 300)
    burst[151:161] = 1000  # nearly all of the moves
    assert (np.isin(select_rounds(burst, 40), np.arange(151, 161))).sum() == 10


def test_migrations_are_counted_in_every_round_and_newcomers_are_none() -> None:
    rows = np.array([[0, 0, -1, 1], [1, 0, 0, 1], [0, 0, 0, -1], [0, 1, 1, 1]])
    assert migrations(list(rows)) == {1: [(1, 0, 1)], 2: [(1, 1, 0)], 3: [(2, 0, 1)]}
    assert migrations(list(rows[:1])) == {} and migrations([]) == {}


def test_a_report_counts_all_migrations_though_it_draws_net_flows() -> None:
    rows = wandering(50, 100, share=0.3)
    rows[:30, :10] = -1
    pairs = list(zip(rows, rows[1:], strict=False))
    true = [
        sum(a != b and a >= 0 and b >= 0 for a, b in zip(one, other, strict=True))
        for one, other in pairs
    ]
    cell = contents(ReportInput("run", (ReportedRun("", "IFCA", a_run(rows)),)))["runs"][0]
    assert cell["migrations"]["total"] == sum(true) and cell["migrations"]["rounds"] == sum(
        n > 0 for n in true
    )
    assert true[cell["migrations"]["peak"] - 1] == max(true)
    most = cell["migrations"]["busiest"]
    assert len(most) == 12 and [n for _, n, _ in most] == [true[r - 1] for r, *_ in most]
    assert sorted((n for _, n, _ in most), reverse=True) == sorted(true, reverse=True)[:12]
    drawn = sum(n for _, source, target, n, _ in cell["alluvial"]["flows"] if source != target)
    # Who went and came back is not seen.
    assert cell["alluvial"]["omitted"] > 0 and drawn < sum(true)
    assert alluvial(list(rows[:5]), [0, 1, 2]).omitted == 0
