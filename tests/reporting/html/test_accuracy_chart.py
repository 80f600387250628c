"""Accuracy over the rounds: means, intervals, partial rounds and events, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.measures.table import MEASURES
from fedkin.reporting.html.accuracy_chart import accuracy_by_cluster, accuracy_over_rounds, events
from fedkin.reporting.html.methods_table import mean_with_unit, scores
from tests.reporting.written_runs import a_run


def test_the_mean_over_seeds_and_its_interval_are_students() -> None:
    rows = np.zeros((3, 4), np.int64)
    values = [[0.1, 0.5, 0.6], [0.1, 0.6, 0.7], [0.1, 0.7, 0.9]]
    runs = [a_run(rows, seed=i, accuracy=v) for i, v in enumerate(values)]
    chart = accuracy_over_rounds(runs)
    middle = np.array([0.5, 0.6, 0.7])
    half = 4.302652729911275 * middle.std(ddof=1) / np.sqrt(3)  # t(0.975, 2), from a table
    assert chart["accuracy"][1] == round(middle.mean(), 4)
    assert chart["accuracy_high"][1] == pytest.approx(middle.mean() + half, abs=1e-4)
    assert chart["accuracy_high"][2] == 1.0  # 0.733 + 0.379: no share is above one
    assert chart["accuracy_low"][1] == pytest.approx(middle.mean() - half, abs=1e-4)
    assert (
        mean_with_unit(MEASURES["accuracy"], middle.tolist())
        == f"{100 * middle.mean():.1f} ± {100 * half:.1f}%"
    )
    two = accuracy_over_rounds(runs[:2])
    assert (
        two["accuracy_low"] == [None] * 3
        and mean_with_unit(MEASURES["accuracy"], [0.5, 0.6]) == "55.0%"
    )


def test_a_band_is_cut_at_nothing_and_the_table_has_the_whole_interval() -> None:
    runs = [
        a_run(np.zeros((1, 4), np.int64), seed=i, accuracy=[v])
        for i, v in enumerate((0.0, 0.1, 0.5))
    ]
    half = 4.302652729911275 * np.std([0.0, 0.1, 0.5], ddof=1) / np.sqrt(3)
    assert 0.2 < half and accuracy_over_rounds(runs)["accuracy_low"] == [0.0]
    assert mean_with_unit(MEASURES["accuracy"], [0.0, 0.1, 0.5]) == f"20.0 ± {100 * half:.1f}%"


def test_an_interval_of_errors_without_a_unit_may_be_above_one() -> None:
    """MASE is 1 for a forecast that is as good as the seasonal naive one, and has no upper end."""
    mase = "mean_absolute_scaled_error"
    values = [1.3, 1.4, 1.6]
    rows = np.zeros((1, 4), np.int64)
    records: list[dict[str, Any]] = [{"measure": [mase], mase: [value]} for value in values]
    runs = [a_run(rows, seed=seed, **record) for seed, record in enumerate(records)]
    chart = accuracy_over_rounds(runs)
    half = 4.302652729911275 * np.std(values, ddof=1) / np.sqrt(3)
    assert chart["accuracy"] == pytest.approx([np.mean(values)], abs=1e-4)
    assert chart["accuracy_high"] == pytest.approx([np.mean(values) + half], abs=1e-4)
    assert chart["accuracy_low"] == pytest.approx([np.mean(values) - half], abs=1e-4)


def test_partial_rounds_are_pale_and_not_the_best() -> None:
    run = a_run(
        np.zeros((4, 3), np.int64),
        accuracy=[0.9, 0.8, 0.5, 0.6],
        partial=[True, True, False, False],
    )
    chart = accuracy_over_rounds([run])
    assert chart["accuracy"] == [None, None, 0.5, 0.6]
    assert chart["partial"] == [0.9, 0.8, 0.5, None]
    assert scores(run)["best"] == 0.6 and scores(run)["final"] == 0.6


def test_rounds_that_were_not_scored_are_left_out_so_that_lines_join_the_scored_ones() -> None:
    run = a_run(np.zeros((5, 3), np.int64), partial=[True, None, False, None, False])
    for place in (1, 3):
        run.records[place].update(
            accuracy=None, bottom_decile=None, accuracy_by_cluster=None, cluster_sizes=None
        )
    chart = accuracy_over_rounds([run])
    assert chart["rounds"] == [0, 2, 4]
    assert chart["accuracy"] == [None, 0.502, 0.504]
    assert chart["partial"] == [0.5, 0.502, None]  # the pale line reaches the complete rounds
    by_cluster = accuracy_by_cluster(run, [0])
    assert by_cluster["rounds"] == [0, 2, 4]
    assert by_cluster["lines"][0]["accuracy"] == [0.5, 0.502, 0.504]


def test_a_run_without_scored_rounds_keeps_its_rounds() -> None:
    run = a_run(np.zeros((2, 3), np.int64))
    for record in run.records:
        record.update(accuracy=None, bottom_decile=None, accuracy_by_cluster=None)
    assert accuracy_over_rounds([run])["rounds"] == [0, 1]
    assert accuracy_over_rounds([run])["accuracy"] == [None, None]


def test_agreement_with_true_clusters_may_be_below_zero_and_is_there_only_where_known() -> None:
    rows = np.zeros((3, 4), np.int64)
    run = a_run(rows, ari=[-0.25, 0.0, 1.0])
    assert accuracy_over_rounds([run])["ari"] == [-0.25, 0.0, 1.0]
    assert "ari" not in accuracy_over_rounds([a_run(rows)])
    seeds = [a_run(rows, seed=s, ari=[value] * 3) for s, value in enumerate((-0.2, -0.1, 0.0))]
    chart = accuracy_over_rounds(seeds)
    half = 4.302652729911275 * 0.1 / np.sqrt(3)
    assert chart["ari"][0] == pytest.approx(-0.1) and chart["ari_low"][0] == pytest.approx(
        -0.1 - half, abs=1e-4
    )


def test_only_rare_events_are_marked() -> None:
    rows = np.zeros((21, 8), np.int64)
    rows[:10, 0] = -1  # placed in round 10
    # 2 of 8 are not more than a quarter.
    moved: list[int | None] = [
        None,
        *[8 if r == 5 else 2 for r in range(1, 21)],
    ]
    run = a_run(rows, data_shifts=moved)
    assert events(run, list(rows)) == {"shifts": [5], "newcomers": [10]}
    always = a_run(rows, data_shifts=[8] * 21)
    assert events(always, list(rows))["shifts"] == []


def test_clusters_without_clients_are_not_counted_as_omitted() -> None:
    """Only clusters that have an accuracy are left out for lack of room."""
    run = a_run(np.zeros((2, 3), np.int64), accuracy_by_cluster=[[0.5, None, None]] * 2)
    chart = accuracy_by_cluster(run, [0])
    assert [line["cluster"] for line in chart["lines"]] == [0] and chart["omitted"] == 0
    more = a_run(np.zeros((2, 3), np.int64), accuracy_by_cluster=[[0.5, 0.4, None]] * 2)
    assert accuracy_by_cluster(more, [0])["omitted"] == 1
