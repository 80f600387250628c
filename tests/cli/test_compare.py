"""``fedkin compare``: output, files, and refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.core.errors import MethodError
from tests.refusals import refused

QUICK = ["data.clients=8", "run.rounds=2", "run.cohort=3", "local.epochs=1"]
TWO = ["--methods", "fedavg,ifca", "--seeds", "1"]
STUDY = """
[data]
name = "digits"
clients = 8
[method]
name = "ifca"
clusters = 2
[local]
epochs = 1
[run]
rounds = 1
cohort = 8
target = 0.01
[compare]
methods = ["fedavg", "ifca"]
seeds = 3
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """What the command says and keeps of a study in a file."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "study.toml").write_text(STUDY)
    result = fedkin(folder / "study.toml", "--out", folder / "c", "--json")
    return folder, result


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *(str(argument) for argument in arguments)])


def nothing_in(folder: Path) -> None:
    assert not list(folder.iterdir())


# --- output


def test_a_study_in_a_file_ends_with_json(compared: tuple[Path, Result]) -> None:
    folder, result = compared
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1
    told = json.loads(result.stdout)
    assert (told["methods"], told["seeds"], told["settings"]) == (
        ["FedAvg", "IFCA"],
        [0, 1, 2],
        [""],
    )
    assert (told["missing"], told["failed"], told["out"]) == ([], [], str(folder / "c"))
    columns = {
        "final_accuracy",
        "final_accuracy_low",
        "bottom_decile",
        "rounds_to_target",
        "bytes_up",
        "seconds",
    }
    assert all(columns <= set(row) for row in told["table"])
    # Round 0 does not count.
    assert [row["rounds_to_target"] for row in told["table"]] == [1.0, 1.0]
    assert {"p", "low", "high", "verdict"} <= set(told["differences"][0])
    assert json.loads((folder / "c/summary.json").read_text()) == {
        k: v for k, v in told.items() if k != "out"
    }


def test_progress_and_tables_are_for_people(compared: tuple[Path, Result]) -> None:
    told = compared[1].stderr
    assert told.splitlines()[0] == f"kept in {compared[0] / 'c'}"
    for number, (method, seed) in enumerate(
        [(m, s) for s in range(3) for m in ("FedAvg", "IFCA")], 1
    ):
        assert f"{number} of 6  {method}, seed {seed}  accuracy " in told
    assert "0:00:00 left" in told
    for word in (
        "bottom 10%",
        "to target",
        "download",
        "Means over the seeds",
        "run.target, 1.0%",
        "comparison.csv",
    ):
        assert word in told


def test_the_files_of_a_comparison(compared: tuple[Path, Result]) -> None:
    kept = {path.name for path in (compared[0] / "c").iterdir()}
    assert kept == {"comparison.toml", "cells", "differences.csv", "curves.csv", "summary.json"} | {
        *(f"comparison.{ending}" for ending in ("csv", "md", "tex")),
        *("figure.png", "figure.svg", "runs.csv"),
    }


def test_without_arguments_it_is_the_demonstration_in_a_new_folder(elsewhere: Path) -> None:
    result = fedkin(*QUICK, "--seeds", "1")
    assert result.exit_code == 0, result.output
    (folder,) = (elsewhere / "runs").iterdir()
    assert folder.name.startswith("compare-")
    for word in (
        "FedGroup",
        "FedAvg",
        "Means over the seeds of a row.",
        f"runs/{folder.name}/comparison.csv",
    ):
        assert word in result.stdout
    assert "FedGroup, seed 0" in result.stderr and "FedGroup, seed 0" not in result.stdout


def test_a_sweep_and_other_methods_than_the_files(elsewhere: Path) -> None:
    (elsewhere / "study.toml").write_text(STUDY)
    result = fedkin(
        "study.toml",
        "--grid",
        "local.lr=0.01,0.03",
        "--grid",
        "method.clusters=2,3",
        "--methods",
        "ifca, local",
        "--seeds",
        "1",
        "--json",
        "--out",
        "c",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["settings"] == ["lr 0.01", "lr 0.03"]
    assert told["methods"] == ["IFCA, clusters 2", "IFCA, clusters 3", "Local"]
    assert len(pd.read_csv("c/comparison.csv")) == 6


@pytest.mark.parametrize(
    ("measure", "words"), [("bottom", "bottom 10% of clients"), ("best", "best accuracy")]
)
def test_methods_are_distinguished_by_another_measure(
    compared: tuple[Path, Result], measure: str, words: str
) -> None:
    shutil.copytree(compared[0] / "c", "c")
    result = fedkin("--resume", "c", "--by", measure)
    assert result.exit_code == 0, result.output
    assert f"Bold: the highest {words}" in " ".join(result.stdout.split()).replace(
        "accuracy of the ", ""
    )
    assert set(pd.read_csv("c/differences.csv")["measure"]) == {measure}
    assert fedkin("--resume", "c").exit_code == 0  # it stays so
    assert set(pd.read_csv("c/differences.csv")["measure"]) == {measure}


# --- going on


def test_a_finished_comparison_is_shown_again_and_takes_more_seeds(
    compared: tuple[Path, Result],
) -> None:
    shutil.copytree(compared[0] / "c", "c")
    again = fedkin("--resume", "c", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout) == {**json.loads(compared[1].stdout), "out": "c"}
    assert again.stderr.count("finished before") == 6
    more = fedkin("--resume", "c", "--seeds", "4", "--json")
    told = json.loads(more.stdout)
    assert (told["seeds"], [row["seeds"] for row in told["table"]]) == ([0, 1, 2, 3], [4, 4])
    assert (
        more.stderr.count("finished before") == 6
        and "8 of 8  IFCA, seed 3  accuracy" in more.stderr
    )
    fewer = json.loads(fedkin("--resume", "c", "--seeds", "2", "--json").stdout)
    assert [row["seeds"] for row in fewer["table"]] == [2, 2]


@pytest.mark.parametrize(
    ("method", "missing", "seeds"), [("fedavg", 2, [0, 0]), ("ifca", 1, [1, 0])]
)
def test_ctrl_c_ends_with_130_and_says_how_far_it_got_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, method: str, missing: int, seeds: list[int]
) -> None:
    """In the first run, before anything is done, and in the second."""
    from fedkin.reporting.comparison_progress import ComparisonDisplay

    shown = ComparisonDisplay.round

    def interrupt(self: ComparisonDisplay, record: dict) -> None:
        shown(self, record)
        if record["method"] == method and record["round"] == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ComparisonDisplay, "round", interrupt)
        result = fedkin(*QUICK, *TWO, "--out", "c")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted; go on with: fedkin compare --resume c"
    assert (
        f"Not finished: {missing} of 2 runs." in result.stdout and "Traceback" not in result.output
    )
    # Without a finished run there is no table, and an interrupted comparison has no findings yet.
    assert ("bottom 10%" in result.stdout) == (missing == 1)
    assert "not tested" not in result.stdout and "Target" not in result.stdout
    assert pd.read_csv("c/comparison.csv")["seeds"].tolist() == seeds
    assert Path("c/figure.png").exists() == (missing == 1)
    resumed = fedkin("--resume", "c")
    assert resumed.exit_code == 0
    assert resumed.stdout.splitlines()[-2:] == ["figure: c/figure.png", "next: fedkin report c"]
    assert pd.read_csv("c/comparison.csv")["seeds"].tolist() == [1, 1]


def test_a_run_that_stops_early_is_named_in_the_log_and_below_the_table() -> None:
    arguments = ["run.rounds=3", "run.until=0.001", "--methods", "fedavg", "--seeds", "1"]
    result = fedkin(*QUICK, *arguments, "--out", "c")
    assert result.exit_code == 0, result.output
    (line,) = (one for one in result.stderr.splitlines() if one.startswith("1 of 1  FedAvg"))
    found = re.search(r"stopped after round (\d) of 3$", line)
    assert found and int(found[1]) < 3
    assert f"Stopped early, of 3 rounds: FedAvg after round {found[1]}." in result.stdout


# --- failures


def test_cells_that_could_not_be_run_are_named_at_the_end() -> None:
    result = fedkin(*QUICK, "--methods", "fedavg,oracle", "--seeds", "1", "--out", "c", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout.splitlines()[-1])
    assert [failed["cell"] for failed in told["failed"]] == [["", "Oracle", 0]]
    told_once = " ".join(result.stderr.split())
    # Behind the warning that is logged before the first run.
    table = told_once[told_once.index("final") :]
    assert "Oracle: not run: " in table and table.count("true clusters") == 1
    assert "--resume" not in told_once  # which would be refused again
    assert Path("c/comparison.md").exists()


def test_runs_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise MethodError("no model came of it")

    monkeypatch.setattr(fk.FedAvg, "round", failing)
    result = fedkin(*QUICK, "--methods", "fedavg,ifca", "--seeds", "1", "--out", "c")
    told = " ".join(result.output.split())
    assert result.exit_code == 2
    assert "FedAvg: not run: " in told
    assert "to retry the failed runs: fedkin compare --resume c" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--methods", "fedagv"], ["unknown method", "did you mean 'fedavg'"]),
        (["--methods", ""], ["lists no method", "no cell"]),
        (["--methods", "fedavg,fedavg"], ["'FedAvg'", "another label"]),
        (["--grid", "local.lr="], ["--grid", "no cell"]),
        (["--grid", "local.lrr=1"], ["local.lrr", "did you mean 'lr'"]),
        (["--grid", "run.seed=1,2"], ["run.seed cannot be an axis", "--seeds"]),
        (["--grid", "method.centre=1"], ["method.centre", "no method"]),
        (["--grid", "local.lr=0.1", "--grid", "local.lr=0.2"], ["local.lr", "twice"]),
        (["--seeds", "0"], ["--seeds", "0"]),
        (["--by", "fianl"], ["unknown measure", "did you mean 'final'"]),
        (["run.rouns=3"], ["unknown key 'rouns'", "did you mean 'rounds'"]),
        (["compare.sedes=3"], ["error: compare.sedes", "did you mean 'seeds'"]),
        (["nothere.toml"], ["nothere.toml", "no such file"]),
        (["study"], ["expected FILE.toml or section.key=value"]),
        (["a.toml", "b.toml"], ["at most one file"]),
        (["--resume", "nowhere"], ["nowhere holds no comparison"]),
        (["--resume", "c", "--methods", "fedavg"], ["--resume takes its grid from c"]),
        (["--resume", "c", "--grid", "local.lr=1"], ["--resume takes its grid from c"]),
        (["--resume", "c", "--out", "d"], ["--resume takes its grid from c"]),
        (["--resume", "c", "run.rounds=3"], ["--resume takes its grid from c"]),
        (
            ["data.clients=8", "run.cohort=9"],
            ["no run of the comparison succeeded", "run.cohort", "9"],
        ),
        (["data.name=file", "data.path=nothere.npz"], ["no run", "nothere.npz"]),
    ],
)
def test_a_refusal_is_one_line(elsewhere: Path, arguments: list[str], words: list[str]) -> None:
    result = fedkin(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    refused(result, *words)
    nothing_in(elsewhere)


def test_folders_that_are_taken_are_refused(compared: tuple[Path, Result], elsewhere: Path) -> None:
    shutil.copytree(compared[0] / "c", "c")
    (elsewhere / "file").write_text("in the way")
    study = compared[0] / "study.toml"
    before = {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    refused(fedkin(study, "--out", "c"), "already holds this comparison", "--resume c")
    refused(
        fedkin(study, "--seeds", "4", "--out", "c"),
        "already holds this comparison",
        "--resume c --seeds 4",
    )
    refused(
        fedkin(study, "--methods", "fedavg", "--out", "c"),
        "already holds a comparison with other methods",
    )
    refused(fedkin(study, "--out", "c/cells/all/ifca/0"), "already holds a run")
    refused(fedkin(study, "--out", "file/c"), "cannot write", "file/c")
    refused(fedkin("--resume", "c/cells/all/ifca/0"), "holds no comparison")
    assert before == {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}


def test_a_damaged_comparison_is_one_line(compared: tuple[Path, Result]) -> None:
    shutil.copytree(compared[0] / "c", "c")
    Path("c/cells/all/ifca/1/clients.parquet").write_bytes(b"nothing")
    refused(fedkin("--resume", "c"), "c/cells/all/ifca/1/clients.parquet")
    Path("c/comparison.toml").write_text("seeds = [1\n")
    refused(fedkin("--resume", "c"), "c/comparison.toml")
    Path("c/comparison.toml").write_text("")
    refused(fedkin("--resume", "c", "--seeds", "2"), "c/comparison.toml")


def test_in_a_process_bad_input_is_one_line_too(elsewhere: Path) -> None:
    """Only the command itself decides here how warnings are shown."""
    command = [
        sys.executable,
        "-m",
        "fedkin.cli",
        "compare",
        "data.name=file",
        "data.path=nothere.npz",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith(
        "error: no run of the comparison"
    )
    nothing_in(elsewhere)


def test_help_names_the_arguments() -> None:
    told = fedkin("--help").stdout
    for option in ("--methods", "--seeds", "--grid", "--by", "--out", "--resume", "--json"):
        assert option in told
