"""The table of methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkin.analysis.tables import mean_and_interval
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.methods_table import methods_table
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput, read_runs
from tests.reporting.written_runs import a_run


def test_a_seed_without_a_figure_leaves_no_mean_of_the_others() -> None:
    rows = np.zeros((2, 4), np.int64)
    # No complete round.
    runs = [
        a_run(rows, seed=0),
        a_run(rows, seed=1),
        a_run(rows, seed=2, partial=[True, True]),
    ]
    table = methods_table(ReportInput("seeds", tuple(ReportedRun("", "X", run) for run in runs)))
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert row["best (test)"] == "-" and row["final (test)"] == "50.1 ± 0.0%"
    assert mean_and_interval("best", [0.5, None]) == {
        "best": None,
        "best_low": None,
        "best_high": None,
    }


def test_accuracies_on_validation_samples_are_never_called_test_accuracies() -> None:
    run = a_run(np.zeros((2, 4), np.int64), split=["validation"] * 2)
    tested = {"final_accuracy": 0.3, "best_accuracy": 0.4, "bottom_decile": 0.2}
    for final, shown in ((tested, ["40.0%", "30.0%", "20.0%"]), ({}, ["50.1%", "50.1%", "25.1%"])):
        made = contents(read_runs(replace(run, final=final)))
        row = dict(zip(made["table"]["heads"], made["table"]["rows"][0], strict=True))
        names = ("best (test)", "final (test)", "bottom 10% of clients")
        assert [row[name] for name in names] == [
            f"{one}{'' if final else ' (validation)'}" for one in shown
        ]
        assert made["accuracy"][0]["split"] == made["runs"][0]["split"] == "validation"


def test_runs_under_attack_have_columns_of_honest_clients() -> None:
    quiet = a_run(np.zeros((2, 4), np.int64))
    honest = {
        "honest_accuracy": 0.8,
        "honest_bottom_decile": 0.4,
        "honest_ari": 0.5,
        "attackers_alone": None,
    }
    attacked = replace(quiet, final=quiet.final | honest | {"attackers": [0]})
    table = methods_table(
        ReportInput("comparison", (ReportedRun("", "X", quiet), ReportedRun("", "Y", attacked)))
    )
    assert table["heads"][-4:] == [
        "honest clients",
        "honest bottom 10%",
        "honest ARI",
        "attackers alone",
    ]
    assert [row[-4:] for row in table["rows"]] == [["-"] * 4, ["80.0%", "40.0%", "0.50", "-"]]
    assert (
        methods_table(ReportInput("run", (ReportedRun("", "X", quiet),)))["heads"][-1] == "seconds"
    )


def test_the_table_has_a_row_for_each_method_and_setting() -> None:
    rows = np.zeros((3, 4), np.int64)
    cells = tuple(
        ReportedRun(s, m, a_run(rows, seed=i))
        for s in ("a", "b")
        for m in ("X", "Y")
        for i in (0, 1, 2)
    )
    table = methods_table(ReportInput("comparison", cells))
    assert [row[:3] for row in table["rows"]] == [[s, m, "3"] for s in "ab" for m in "XY"]
    assert all(len(row) == len(table["heads"]) for row in table["rows"])
