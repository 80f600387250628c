"""A comparison that is stopped from outside tells how far it got. Gone on with, it ends as the
uninterrupted one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from tests.process.test_killed_runs import exit_codes
from tests.process.test_killed_seeds import contents as all_contents

SETTINGS = [
    *(
        "compare",
        "data.clients=8",
        "run.rounds=3",
        "run.cohort=3",
        "local.epochs=1",
        "run.checkpoint_every=2",
    ),
    *("--methods", "fedavg,ifca", "--seeds", "2"),
]
SECONDS = {"comparison.csv", "comparison.md", "comparison.tex"}  # they hold them

# The process writes that it has come to a round, and waits there until it has noted the signal.
WAITING = """
import sys, time, pathlib
from fedkin import cli
from fedkin.reporting.comparison_progress import ComparisonDisplay
from fedkin.run.interruption import is_interrupted
shown, at = ComparisonDisplay.round, int(sys.argv.pop(1))
seen = []
def round(self, record):
    shown(self, record)
    seen.append(record)
    if len(seen) == at:
        pathlib.Path("here").touch()
        while not is_interrupted():
            time.sleep(0.01)
ComparisonDisplay.round = round
cli.main()
"""


def stopped_at(number: int, *arguments: str, cwd: Path) -> tuple[int, str, str]:
    """Run the command until its N-th round, then Ctrl-C; how it ended."""
    (cwd / "here").unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", "-c", WAITING, str(number), *arguments]
    with subprocess.Popen(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not (cwd / "here").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    return process.returncode, out, err


def fedkin(*arguments: str | Path) -> None:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def contents(root: Path) -> dict[str, object]:
    return {
        name: None if Path(name).name in SECONDS else what
        for name, what in all_contents(root).items()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted comparison."""
    out = tmp_path_factory.mktemp("whole") / "c"
    fedkin(*SETTINGS, "--out", out)
    return out


def test_ctrl_c_shows_the_finished_runs_and_how_to_go_on(whole: Path, tmp_path: Path) -> None:
    """Runs have rounds 0 to 3: the tenth is round 1 of the third run."""
    status, out, err = stopped_at(10, *SETTINGS, "--out", "c", "--json", cwd=tmp_path)
    assert status == 130
    assert err.splitlines()[-1] == "interrupted; go on with: fedkin compare --resume c"
    assert "Traceback" not in out + err
    output = json.loads(out.splitlines()[-1])
    assert [row["seeds"] for row in output["table"]] == [1, 1] and len(output["missing"]) == 2
    assert "FedAvg" in err and "IFCA" in err and "Not finished: 2 of 4 runs." in err
    assert pd.read_csv(tmp_path / "c/comparison.csv")["seeds"].tolist() == [1, 1]
    assert (tmp_path / "c/figure.png").exists()
    # stopped once more, in the last run of all, and then let go on
    status, out, err = stopped_at(4, "compare", "--resume", "c", cwd=tmp_path)
    assert (status, err.splitlines()[-1]) == (
        130,
        "interrupted; go on with: fedkin compare --resume c",
    )
    assert "Not finished: 1 of 4 runs." in out
    fedkin("compare", "--resume", tmp_path / "c")
    assert contents(tmp_path / "c") == contents(whole)


# A run adds 8 lines (records and timings of rounds 0 to 3; IFCA also adds moves) and three
# checkpoints, and renames the checkpoints, its environment, its configuration, its clients and its
# summary.
MOMENTS = [
    ("before a rename", 1),  # of comparison.toml
    ("in a checkpoint", 4),
    ("in a line", 25),
]


def test_killed_anywhere_it_goes_on_to_the_same_end(whole: Path, tmp_path: Path) -> None:
    outs = [tmp_path / str(number) for number in range(len(MOMENTS))]
    jobs = [
        (how, n, [*SETTINGS, "--out", str(out)])
        for (how, n), out in zip(MOMENTS, outs, strict=True)
    ]
    assert exit_codes(jobs) == [-signal.SIGKILL] * len(jobs)
    fedkin(*SETTINGS, "--out", outs[0])  # there was no comparison yet
    for out in outs:
        fedkin("compare", "--resume", out)
        assert contents(out) == contents(whole), out
