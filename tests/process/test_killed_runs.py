"""Killed at any moment and resumed, a run ends with the same bits as one that was never stopped."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.core.storage import complete_lines
from tests.process.comparison import differences

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [
    *(
        "data.clients=10",
        "run.rounds=5",
        "run.cohort=4",
        "local.epochs=2",
        "run.checkpoint_every=2",
    ),
    *("scenario.dropout=0.3", "scenario.arrivals={2 = 3}"),
]
# A method's run renames 6 files up to its last checkpoint (environment, configuration, checkpoints
# of rounds 0, 2, 4 and 5) and adds 12 lines (records and timings of rounds 0 to 5). FedAvg's come
# after FedGroup's, and the files of the end after both.
MOMENTS = [
    ("before a sync", 13),  # the first record stands, no checkpoint yet
    ("in a line", 3),  # a record
    ("before a rename", 5),
    ("before a rename", 8),  # the second method's folder has no configuration yet
    ("in a checkpoint", 8),  # the very last
    ("before a rename", 15),  # figures and tables are being written
]
# One run, killed in a timing, resumed and killed in the first checkpoint that it writes then, and
# so on.
ONE_AFTER_ANOTHER = [
    ("in a line", 8),
    ("in a checkpoint", 1),
    ("before a rename", 1),
    ("before a rename", 3),
    ("in a line", 6),
]


def folders(root: Path) -> list[Path]:
    """A folder for every moment."""
    return [root / f"{number}-{how.replace(' ', '-')}" for how, number in MOMENTS]


def exit_codes(jobs: list[tuple[str, int, list[str]]]) -> list[int]:
    """The exit codes of jobs, each in a separate process."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.process.killed_commands"]
    done = subprocess.run(
        command, input=json.dumps(jobs), cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedkin.cli", "run", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(*arguments: str | Path) -> None:
    result = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(*SETTINGS, "--out", out)
    return out


def assert_same_files(whole: Path, resumed: Path) -> None:
    """Equal records, tables and figures, equal arrays in the last checkpoints, and nothing half
    written."""
    assert (whole / "against/fedavg/checkpoints/round-000005.safetensors").exists()
    assert differences(whole, resumed) == []


@pytest.fixture(scope="module")
def killed_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    """A run for every moment, killed then."""
    paths = folders(tmp_path_factory.mktemp("killed"))
    jobs = [
        (how, n, ["run", *SETTINGS, "--out", str(p)])
        for (how, n), p in zip(MOMENTS, paths, strict=True)
    ]
    assert exit_codes(jobs) == [-signal.SIGKILL] * len(jobs)
    first = paths[0]  # where it was meant to die
    assert len(complete_lines(first / "metrics.jsonl")) == 1 and not list(
        first.glob("checkpoints/round*")
    )
    return dict(zip(MOMENTS, paths, strict=True))


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_killed_and_resumed(
    whole: Path, killed_runs: dict[tuple[str, int], Path], moment: tuple[str, int]
) -> None:
    run("--resume", killed_runs[moment])
    assert_same_files(whole, killed_runs[moment])


def test_killed_again_and_again(whole: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    resume = ["run", "--resume", out]
    start = ["run", *SETTINGS, "--out", out]
    jobs = [(how, n, resume if i else start) for i, (how, n) in enumerate(ONE_AFTER_ANOTHER)]
    assert exit_codes(jobs) == [-signal.SIGKILL] * len(jobs)
    run("--resume", out)
    assert_same_files(whole, Path(out))


def test_killed_before_there_was_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["run", *SETTINGS, "--out", str(out)]
    assert exit_codes([("before a rename", n, arguments) for n in (1, 2)]) == [-signal.SIGKILL] * 2
    result = CliRunner().invoke(app, ["run", "--resume", str(out)])
    assert result.exit_code == 2 and "holds no run" in result.stderr
    run(*SETTINGS, "--out", out)  # a new one may begin there


def test_a_damaged_newest_checkpoint_costs_rounds_and_nothing_else(
    whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    newest = out / "checkpoints/round-000005.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    run("--resume", out)
    assert_same_files(whole, out)


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*SETTINGS, "run.rounds=100000", "--out", out)
    wait_for(out / "metrics.jsonl", process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == f"interrupted; go on with: fedkin run --resume {out}"
    assert "Traceback" not in stdout + stderr
    done = len(complete_lines(out / "metrics.jsonl"))
    run("--resume", out, f"run.rounds={done}", "run.against=[]")
    assert len(complete_lines(out / "metrics.jsonl")) == done + 1


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until a file holds a few lines."""
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
