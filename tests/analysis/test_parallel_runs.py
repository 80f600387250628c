"""Runs in separate processes give the same folders.
A run that fails or dies takes no other away."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis import parallel_runs
from fedkin.analysis.compare import comparison_folder, runner
from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.jobs import Job, Outcome, replay
from fedkin.analysis.repeat import execute_seeds
from fedkin.config.comparison import load
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.methods.fedavg import FedAvg
from fedkin.run.stopping import STOP
from tests.analysis.test_repeat import NEVER_THE_SAME, same, settings

QUICK = ["data.clients=6", "run.rounds=2", "run.cohort=3", "local.epochs=1"]
DIFFERENT = NEVER_THE_SAME | {"environment.json"}  # it lists devices, and a process has one
DIES = """
import os
from dataclasses import dataclass
from fedkin.methods.fedavg import FedAvg

@dataclass(frozen=True)
class Dies(FedAvg):
    def init(self, world, stream):
        os._exit(3)
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison, list[str]]:
    """Four methods, two at a time: one cannot be run, and one ends its process. Also the messages
    about cells."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "dying_method_module.py").write_text(DIES)
    methods: list[Any] = [
        "fedavg",
        "dying_method_module:Dies",
        {"name": "ifca", "clusters": 99},
        "fedprox",
    ]
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder), *sys.path])
        out = folder / "c"
        grid = load(None, QUICK, methods, 1)
        created = comparison_folder.create(out, grid)
        found = runner.run(
            grid, out, lambda cell, _: told.append(cell.method.label), created=created, jobs=2
        )
    return folder, found, told


def test_cells_are_those_of_one_process(
    compared: tuple[Path, Comparison, list[str]], tmp_path: Path
) -> None:
    serial = fk.compare(
        None, *QUICK, methods=["fedavg", "fedprox"], seeds=1, out=tmp_path / "serial"
    )
    for name in ("fedavg", "fedprox"):
        same(
            compared[0] / "c/cells/all" / name / "0",
            tmp_path / "serial/cells/all" / name / "0",
            DIFFERENT,
        )
        assert '"cores"' in (compared[0] / "c/cells/all" / name / "0/environment.json").read_text()
    assert not serial.missing


def test_one_that_fails_or_dies_is_named_and_the_others_go_on(
    compared: tuple[Path, Comparison, list[str]],
) -> None:
    _, found, told = compared
    assert sorted(key[1] for key in found.finished) == ["FedAvg", "FedProx"]
    failed = {key[1]: reason for key, reason in found.failed.items()}
    assert "the run's process died" in failed["Dies"] and "clusters" in failed["IFCA"]
    assert sorted(told) == ["Dies", "FedAvg", "FedProx"]  # IFCA is refused before the first run
    assert "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", "")


def test_stopped_processes_end_and_the_comparison_goes_on(tmp_path: Path) -> None:
    """As Ctrl-C does it: the last of six is not begun yet, and nothing is lost."""
    grid = load(None, QUICK, ["fedavg", "fedprox", "ifca"], 2)
    comparison_folder.create(tmp_path / "c", grid)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(grid, tmp_path / "c", interrupt, jobs=2)
    assert not [one for one in multiprocessing.active_children() if one.join(120) or one.is_alive()]
    assert Comparison.load(tmp_path / "c").missing
    done = fk.compare(
        None,
        *QUICK,
        methods=["fedavg", "fedprox", "ifca"],
        seeds=2,
        out=tmp_path / "c",
        resume=True,
    )
    assert not done.missing


def test_a_stopped_pool_leaves_no_process_and_no_thread() -> None:
    """Its thread waits for the process as well, which seems to live until the thread has noted its
    end."""
    pool = parallel_runs._pool(0, 1)
    pool.submit(time.sleep, 60)
    thread: Any = pool._executor_manager_thread
    (process,) = pool._processes.values()
    parallel_runs._stop(pool)
    assert not thread.is_alive() and not process.is_alive()


def test_an_error_ends_the_processes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when its traceback, which holds their generator, is forgotten: then Python waits for them
    at its exit."""
    ended: list[bool] = []

    def outcomes(jobs: Sequence[Job], *_: object, **__: object) -> Iterator[Outcome]:
        try:
            for job in jobs:
                yield Outcome(job, CheckpointError("damaged"))
        finally:
            ended.append(True)

    monkeypatch.setattr(runner, "run_side_by_side", outcomes)
    with pytest.raises(CheckpointError, match="damaged") as raised:
        runner.run(load(None, QUICK, ["fedavg", "fedprox"], 1), tmp_path / "c", jobs=2)
    assert ended and raised.tb is not None


def test_seeds_are_those_of_one_process(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    two = execute_seeds(
        settings(2, 2), out=tmp_path / "two", jobs=2, on_seed=lambda *seed: told.append(seed)
    )
    one = execute_seeds(settings(2, 2), out=tmp_path / "one")
    assert two.seeds == one.seeds and [number for number, _ in told] == [0, 1]
    for seed in two.seeds:
        same(tmp_path / f"two/seeds/{seed}", tmp_path / f"one/seeds/{seed}", DIFFERENT)
    assert (tmp_path / "two/curves.csv").read_bytes() == (tmp_path / "one/curves.csv").read_bytes()


def test_a_stop_that_comes_too_late_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    run = execute_seeds(settings(1, 2), out=None).runs[0]
    replay(run, lambda record: STOP if record["round"] == 1 else None)
    (told,) = caplog.messages
    assert "returned STOP after round 1, but the run had already ended" in told
    replay(run, lambda record: None)
    replay(run, lambda record: np.zeros(3))  # a reply may be anything
    assert len(caplog.messages) == 1


SCRIPT = """
import fedkin as fk
QUICK = ["data.clients=6", "run.rounds=1", "run.cohort=3", "local.epochs=1"]
print(fk.compare(None, *QUICK, methods=["fedavg", "fedprox"], seeds=1, out="out", jobs=2))
"""


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 finished, 0 missing" in done.stdout


def test_options_that_need_this_process_are_refused(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Here(FedAvg):
        pass

    with pytest.raises(ConfigError, match=r"jobs=2: other processes cannot import .*Here"):
        fk.compare(None, *QUICK, methods=[Here(), "fedavg"], out=tmp_path / "c", jobs=2)
    with pytest.raises(
        ConfigError, match=r"jobs=2: each process has one core; remove run\.devices"
    ):
        fk.compare(None, *QUICK, "run.devices=2", methods=["fedavg"], out=tmp_path / "c", jobs=2)
    with pytest.raises(ConfigError, match=r"jobs must be an integer of at least 1, got 0"):
        fk.compare(None, *QUICK, methods=["fedavg"], out=tmp_path / "c", jobs=0)
    with pytest.raises(ConfigError, match=r"jobs=2 needs a folder"):
        execute_seeds(settings(2, 2), out=None, jobs=2)
    assert not list(tmp_path.iterdir())


def test_processes_are_pinned_to_cores_only_where_all_cores_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 1, 7}, raising=False)
    assert [parallel_runs._core(place, 3) for place in range(3)] == [1, 3, 7]
    assert [parallel_runs._core(place, 4) for place in range(4)] == [1, 3, 7, 1]
    assert [parallel_runs._core(place, 2) for place in range(2)] == [None, None]


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_own=1")
    monkeypatch.delenv("NPROC", raising=False)
    with parallel_runs._one_core():
        assert os.environ["NPROC"] == "1" and os.environ["XLA_FLAGS"].split() == [
            "--xla_own=1",
            "--xla_force_host_platform_device_count=1",
            "--xla_cpu_multi_thread_eigen=false",
        ]
    assert os.environ["XLA_FLAGS"] == "--xla_own=1" and "NPROC" not in os.environ
