"""A trial of a random search that repeats an earlier one is copied, and is a row of each table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.analysis.compare import runner
from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.analysis.compare.experiments import Experiments
from fedkin.analysis.jobs import Job, Outcome, work
from fedkin.cli import app
from fedkin.core.errors import MethodError
from fedkin.run.run import Run

QUICK = ["data.clients=6", "run.rounds=1", "run.cohort=6", "local.epochs=1"]
# With seed 0 the trials have 4, 4, 4 and 3 clusters.
SEARCH: dict[str, Any] = {"grid": {"method.clusters": "int(2,4)"}, "trials": 4}
METHODS = ["fedavg", "ifca"]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """The cells that are computed."""
    keys: list[tuple[str, str, int]] = []
    run = Experiments.run

    def noted(self: Experiments, cell: Cell) -> Run:
        keys.append(cell.key)
        return run(self, cell)

    monkeypatch.setattr(Experiments, "run", noted)
    return keys


def search(out: Path, seeds: int = 1, methods: Any = METHODS, **options: Any) -> Comparison:
    return fk.compare(None, *QUICK, methods=methods, seeds=seeds, out=out, **SEARCH, **options)


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_method_without_a_drawn_option_runs_once_and_has_a_row_for_each_trial(
    ran: list[tuple[str, str, int]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = search(tmp_path / "c")
    assert ran == [
        ("trial 1, clusters 4", "FedAvg", 0),
        ("trial 1, clusters 4", "IFCA", 0),
        ("trial 4, clusters 3", "IFCA", 0),
    ]
    assert not found.missing and len(found.finished) == 8
    assert "FedAvg: the random search draws no option of these runs" in caplog.text
    assert "IFCA: the random search" not in caplog.text
    rows = pd.read_csv(tmp_path / "c/runs.csv")
    rows = rows.query("method == 'FedAvg'")
    assert rows["trial"].tolist() == [1, 2, 3, 4] and len(set(rows["final_accuracy"])) == 1
    cells = sorted((tmp_path / "c/cells").glob("*/fedavg/0"))
    assert len(cells) == 4 and "metrics.jsonl" in contents(cells[0])
    assert all(contents(cell) == contents(cells[0]) for cell in cells[1:])
    assert {path.name for path in (tmp_path / "c").iterdir() if path.is_dir()} == {"cells"}
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "c")])
    assert checked.exit_code == 0 and "8 of 8 cells finished" in checked.stdout

    # Another seed, and a lost copy.
    shutil.rmtree(cells[2])
    ran.clear()
    again = search(tmp_path / "c", seeds=2, resume=True)
    assert [key[1:] for key in ran if key[2] == 0] == []
    assert [key[1:] for key in ran] == [("FedAvg", 1), ("IFCA", 1), ("IFCA", 1)]
    assert len(again.finished) == 16 and contents(cells[2]) == contents(cells[0])


def test_other_processes_get_no_repeated_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs: list[Job] = []

    def here(given: list[Job], *_: object) -> Iterator[Outcome]:
        for job in given:
            jobs.append(job)
            work(job)
            yield Outcome(job, None)

    monkeypatch.setattr(runner, "run_side_by_side", here)
    found = search(tmp_path / "c", jobs=2)
    assert len(jobs) == 3 and len(found.finished) == 8


def test_a_failure_counts_in_each_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Experiments.run

    def failing(self: Experiments, cell: Cell) -> Run:
        if cell.method.label == "FedAvg":
            raise MethodError("not today")
        return run(self, cell)

    monkeypatch.setattr(Experiments, "run", failing)
    found = search(tmp_path / "c")
    assert len(found.failed) == 4 and set(found.failed.values()) == {"not today"}
    assert len(found.finished) == 4


def test_trials_that_change_every_method_are_all_run(
    ran: list[tuple[str, str, int]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = {"local.lr": "log(0.01, 0.3)"}
    fk.compare(None, *QUICK, methods=["fedavg"], seeds=1, grid=grid, trials=2, out=tmp_path / "c")
    assert len(ran) == 2 and "the random search draws" not in caplog.text
