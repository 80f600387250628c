"""The arithmetic of a report, against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Int

from fedkin.analysis.tables import mean_and_interval
from fedkin.reporting.html import charts
from fedkin.reporting.html.alluvial import OTHERS, Alluvial, alluvial, chosen_rounds, migrations
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.dendrogram import dendrogram, split_tree, splits
from fedkin.reporting.html.read_runs import Cell, Subject
from tests.reporting.written_runs import a_run, wandering

# --- who moved when


def moved(drawn: Alluvial) -> dict[tuple[int, int, int], int]:
    """(round of the column that they reach, from, to) -> how many."""
    return {
        (int(drawn.rounds[f.column + 1]), drawn.bands[f.source], drawn.bands[f.target]): f.count
        for f in drawn.flows
        if f.source != f.target
    }


def test_a_ribbon_tells_who_went_where() -> None:
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
            assert right[-1][1] == pytest.approx(drawn.base[column + 1, band] + drawn.sizes[column + 1, band])


def test_few_busy_rounds_are_all_columns_and_many_are_thinned() -> None:
    assert chosen_rounds(np.array([0, 0, 5, 0, 1, 0]), 40).tolist() == [0, 2, 4]
    assert chosen_rounds(np.zeros(9, np.int64), 40).tolist() == [0]
    even = chosen_rounds(np.array([0] + [1] * 300), 40)
    assert len(even) == 40 and even[-1] == 300 and set(np.diff(even)) <= {7, 8}
    burst = np.array([0] + [1] * 300)
    burst[151:161] = 1000  # nearly all of the moves
    assert (np.isin(chosen_rounds(burst, 40), np.arange(151, 161))).sum() == 10


def test_changes_of_cluster_are_counted_in_every_round_and_newcomers_are_none() -> None:
    rows = np.array([[0, 0, -1, 1], [1, 0, 0, 1], [0, 0, 0, -1], [0, 1, 1, 1]])
    assert migrations(list(rows)) == {1: [(1, 0, 1)], 2: [(1, 1, 0)], 3: [(2, 0, 1)]}
    assert migrations(list(rows[:1])) == {} and migrations([]) == {}


def test_a_report_counts_true_changes_though_it_draws_net_flows() -> None:
    rows = wandering(50, 100, share=0.3)
    rows[:30, :10] = -1
    pairs = list(zip(rows, rows[1:], strict=False))
    true = [sum(a != b and a >= 0 and b >= 0 for a, b in zip(one, other, strict=True)) for one, other in pairs]
    cell = contents(Subject("run", (Cell("", "IFCA", a_run(rows)),)), portraits=False)["cells"][0]
    assert cell["moved"]["times"] == sum(true) and cell["moved"]["rounds"] == sum(n > 0 for n in true)
    assert true[cell["moved"]["peak"] - 1] == max(true)
    most = cell["moved"]["most"]
    assert len(most) == 12 and [n for _, n, _ in most] == [true[r - 1] for r, *_ in most]
    assert sorted((n for _, n, _ in most), reverse=True) == sorted(true, reverse=True)[:12]
    drawn = sum(n for _, source, target, n, _ in cell["ribbon"]["flows"] if source != target)
    assert cell["ribbon"]["left_out"] > 0 and drawn < sum(true)  # who went and came back is not seen
    assert alluvial(list(rows[:5]), [0, 1, 2]).left_out == 0


# --- trees


def test_a_dendrogram_keeps_groups_together_and_merges_at_mean_distances() -> None:
    at = np.array([0.0, 10.0, 1.0, 14.0])  # groups {0, 2} and {1, 3}
    distances = np.abs(at[:, None] - at[None])
    tree = dendrogram(distances, np.array([0, 1, 0, 1]))
    assert sorted(tree.order.tolist()[:2]) in ([0, 2], [1, 3])
    tops = sorted(max(h for h, _ in line) for line in tree.lines)
    assert tops == [1.0, 4.0, pytest.approx((10 + 14 + 9 + 13) / 4)]  # inside, inside, mean of the pairs across


def test_a_group_of_its_own_is_a_leaf() -> None:
    tree = dendrogram(np.array([[0.0, 2.0], [2.0, 0.0]]), np.array([5, 7]))
    assert tree.order.tolist() == [0, 1]
    assert tree.lines == [[(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0)]]
    assert dendrogram(np.zeros((1, 1)), np.array([0])).lines == []


def cut_twice() -> list[Int[np.ndarray, "N"]]:
    """All in one cluster; in round 2 clients 3 to 5 leave it, in round 4 client 5 leaves them."""
    return [np.array(row) for row in ([0] * 6, [0] * 6, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2])]


def test_cuts_are_found_in_the_moves() -> None:
    assert splits(cut_twice()) == [(2, 0, 1), (4, 1, 2)]


def test_what_is_no_cutting_in_two_has_no_split_tree() -> None:
    assert splits([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])]) is None  # two from the start
    assert splits([np.zeros(3, np.int64), np.array([0, 1, 2])]) is None  # three at once
    assert splits([np.zeros(3, np.int64)] * 2) is None  # never cut
    assert splits([]) is None


def test_a_split_tree_has_its_cuts_at_their_rounds() -> None:
    rows = cut_twice()
    distances = np.ones((6, 6)) - np.eye(6)
    tree = split_tree([(2, 0, 1), (4, 1, 2)], rows[-1], distances, 4)
    assert tree.kind == "splits"
    assert sorted(tree.order[:3].tolist()) == [0, 1, 2] and tree.order[5] == 5
    (_, cut, _, _), (_, first, _, _), root = tree.lines
    assert cut[0] == 4 and first[0] == 2 and root[-1][0] == 0
    assert first[1] == 1.0  # the middle of the three that stayed


# --- curves and figures


def test_the_mean_over_seeds_and_its_interval_are_students() -> None:
    rows = np.zeros((3, 4), np.int64)
    values = [[0.1, 0.5, 0.6], [0.1, 0.6, 0.7], [0.1, 0.7, 0.9]]
    runs = [a_run(rows, seed=i, accuracy=v) for i, v in enumerate(values)]
    told = charts.overall(runs)
    last = np.array([0.6, 0.7, 0.9])
    half = 4.302652729911275 * last.std(ddof=1) / np.sqrt(3)  # t(0.975, 2), from a table
    assert told["accuracy"][2] == round(last.mean(), 4)
    assert told["accuracy_high"][2] == pytest.approx(last.mean() + half, abs=1e-4)
    assert told["accuracy_low"][2] == pytest.approx(last.mean() - half, abs=1e-4)
    assert charts.share(last.tolist()) == f"{100 * last.mean():.1f} ± {100 * half:.1f}%"
    two = charts.overall(runs[:2])
    assert two["accuracy_low"] == [None] * 3 and charts.share([0.5, 0.6]) == "55.0%"


def test_an_interval_is_not_cut_off_at_nothing() -> None:
    runs = [a_run(np.zeros((1, 4), np.int64), seed=i, accuracy=[v]) for i, v in enumerate((0.0, 0.1, 0.5))]
    half = 4.302652729911275 * np.std([0.0, 0.1, 0.5], ddof=1) / np.sqrt(3)
    assert charts.overall(runs)["accuracy_low"] == [pytest.approx(0.2 - half, abs=1e-4)] and 0.2 < half


def test_a_seed_without_a_figure_leaves_no_mean_of_the_others() -> None:
    rows = np.zeros((2, 4), np.int64)
    runs = [a_run(rows, seed=0), a_run(rows, seed=1), a_run(rows, seed=2, partial=[True, True])]  # no complete round
    table = charts.table(Subject("seeds", tuple(Cell("", "X", run) for run in runs)))
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert row["best accuracy"] == "-" and row["final accuracy"] == "50.1 ± 0.0%"
    assert mean_and_interval("best", [0.5, None]) == {"best": None, "best_low": None, "best_high": None}


def test_partial_rounds_are_pale_and_not_the_best() -> None:
    run = a_run(np.zeros((4, 3), np.int64), accuracy=[0.9, 0.8, 0.5, 0.6], partial=[True, True, False, False])
    told = charts.overall([run])
    assert told["accuracy"] == [None, None, 0.5, 0.6]
    assert told["pale"] == [0.9, 0.8, 0.5, None]
    assert charts.figures(run)["best"] == 0.6 and charts.figures(run)["final"] == 0.6


def test_rounds_that_were_not_scored_are_gaps() -> None:
    run = a_run(np.zeros((3, 3), np.int64))
    run.records[1].update(accuracy=None, bottom_decile=None, accuracy_by_cluster=None, cluster_sizes=None)
    assert charts.overall([run])["accuracy"] == [0.5, None, 0.502]
    assert charts.by_cluster(run, [0])["lines"][0]["accuracy"] == [0.5, None, 0.502]


def test_marks_are_kept_for_what_is_rare() -> None:
    rows = np.zeros((21, 8), np.int64)
    rows[:10, 0] = -1  # placed in round 10
    moved: list[int | None] = [None, *[8 if r == 5 else 2 for r in range(1, 21)]]  # 2 of 8 are not more than a quarter
    run = a_run(rows, data_shifts=moved)
    assert charts.marks(run, list(rows)) == {"shift": [5], "placed": [10]}
    always = a_run(rows, data_shifts=[8] * 21)
    assert charts.marks(always, list(rows))["shift"] == []


def test_bytes_are_the_last_records_and_measurement_is_apart() -> None:
    told = charts.traffic(a_run(np.zeros((5, 3), np.int64)))["rows"]
    assert told == [
        {"verb": "train", "down": 400, "up": 200, "own": True},
        {"verb": "scoring.evaluate", "down": 7, "up": 0, "own": False},
    ]


def test_sizes_and_thinning() -> None:
    told = [charts.size(n) for n in (0, 999, 1000, 1_234_567, 5e12)]
    assert told == ["0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 TB"]
    assert charts.thinned(3).tolist() == [0, 1, 2]
    many = charts.thinned(10_000)
    assert len(many) == charts.POINTS and many[0] == 0 and many[-1] == 9999


def test_the_table_has_a_row_for_each_method_and_setting() -> None:
    rows = np.zeros((3, 4), np.int64)
    cells = tuple(Cell(s, m, a_run(rows, seed=i)) for s in ("a", "b") for m in ("X", "Y") for i in (0, 1, 2))
    table = charts.table(Subject("comparison", cells))
    assert [row[:3] for row in table["rows"]] == [[s, m, "3"] for s in "ab" for m in "XY"]
    assert all(len(row) == len(table["heads"]) for row in table["rows"])
