"""Signals to processes: a terminal that closes under a run, and the end of the processes of
``--jobs``."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

QUICK = ["run.rounds=4", "run.cohort=2", "local.epochs=1", "data.clients=6", "run.against=[]"]

# The process says that it has come to round 2, and waits there until it has noted the signal.
WAITING = """
import os, pathlib, time
os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first terminal that a session opens is its own
from fedkin import cli
from fedkin.reporting.progress import ProgressDisplay
from fedkin.run.interruption import is_interrupted
shown = ProgressDisplay.__call__
def show(self, record):
    shown(self, record)
    if record["round"] == 2:
        pathlib.Path("here").touch()
        while not is_interrupted():
            time.sleep(0.01)
    shown(self, record)
ProgressDisplay.__call__ = show
cli.main()
"""

# A method whose rounds never end. Its run holds a lock until its process ends.
METHOD = """
import os, time
from dataclasses import dataclass
from pathlib import Path
from filelock import FileLock
from fedkin import FedAvg

LOCK = FileLock(f"{os.getpid()}.lock")

@dataclass(frozen=True)
class Endless(FedAvg):
    def round(self, world, state, cohort, stream):
        LOCK.acquire()
        Path(f"{os.getpid()}.here").touch()
        time.sleep(600)
"""

# Once both workers are in a round, the process signals itself.
SIGNALLING = """
import gc, os, signal, sys, time
from pathlib import Path
from fedkin import cli
from fedkin.analysis import parallel_runs

how, wait = sys.argv.pop(1), parallel_runs.wait

def kill(number):
    os.kill(os.getpid(), number)

def collected(*_):
    gc.callbacks.remove(collected)
    kill(signal.SIGTERM)

def wait_for_rounds(*arguments, **options):
    parallel_runs.wait = wait
    while len(list(Path().glob("*.here"))) < 2:
        time.sleep(0.01)
    if how == "in a callback":
        gc.callbacks.append(collected)
        gc.collect()
    elif how == "twice":
        parallel_runs._stop = lambda pool: kill(signal.SIGINT)  # while the workers are being ended
        kill(signal.SIGINT)
    else:
        kill(signal.SIGKILL)
    return wait(*arguments, **options)

parallel_runs.wait = wait_for_rounds
cli.main()
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", code, *arguments]


@pytest.mark.usefixtures("hangup")
def test_a_terminal_that_closes_ends_a_run_after_its_round(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    command = python(WAITING, "run", *QUICK, "--out", "run")
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=end, stdout=end, stderr=end, start_new_session=True
    )
    os.close(end)
    while not (tmp_path / "here").exists():
        assert process.poll() is None, os.read(terminal, 10_000)
        time.sleep(0.01)
    os.close(terminal)
    assert process.wait() == 128 + signal.SIGHUP
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 3  # rounds 0 to 2
    assert (tmp_path / "run/checkpoints/round-000002.safetensors").exists()


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("in a callback", 128 + signal.SIGTERM),
        ("twice", 128 + signal.SIGINT),
        ("killed", -signal.SIGKILL),
    ],
)
def test_no_process_of_several_jobs_outlives_its_parent(
    how: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "endless.py").write_text(METHOD)
    done = subprocess.run(
        python(
            SIGNALLING,
            how,
            "run",
            *QUICK,
            "run.seeds=2",
            "method.name=endless:Endless",
            "--jobs",
            "2",
            "--out",
            "a run",
        ),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert ("go on with: fedkin run --resume 'a run'" in done.stderr) == (how == "in a callback")
    workers = sorted(tmp_path.glob("*.here"))
    assert len(workers) == 2
    for worker in workers:
        # The system frees it when the worker ends.
        FileLock(worker.with_suffix(".lock")).acquire(timeout=60)
