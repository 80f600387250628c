"""Every operation on files of several seeds and of a comparison, around the runs in them: without
space, killed, and without power. Whoever resumes gets the undisturbed tables. (Those of a run:
``tests/run/test_every_write.py``.)"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds
from fedkin.analysis.repeated_runs import RepeatedRuns
from tests.analysis.test_repeat import same, settings
from tests.every_write import FAULTS, after_each_fault, operations

QUICK = ("data.clients=6", "run.rounds=1", "run.cohort=3", "local.epochs=1")
OUTER = ("*.csv", "summary.json")  # of the folder itself, not of its runs' folders


def seeds(folder: Path) -> None:
    """Go on with two seeds."""
    execute_seeds(settings(2, 1), out=folder / "out", resume=True)


def seeds_tables(folder: Path) -> None:
    """Write the tables of two seeds."""
    RepeatedRuns.load(folder / "out").write(folder / "out")


def compare(folder: Path) -> None:
    """Go on with a comparison of four cells."""
    fk.compare(
        None,
        *QUICK,
        methods=["fedavg", "fedprox"],
        seeds=2,
        out=folder / "out",
        resume=True,
    )


def begun(how: str, folder: Path) -> Path:
    """The same, finished; and a copy from which the tables are missing."""
    if how == "seeds":
        execute_seeds(settings(2, 1), out=folder / "whole/out")
    else:
        fk.compare(
            None,
            *QUICK,
            methods=["fedavg", "fedprox"],
            seeds=2,
            out=folder / "whole/out",
        )
    shutil.copytree(folder / "whole", folder / "without")
    for pattern in OUTER:
        for path in (folder / "without/out").glob(pattern):
            path.unlink()
    return folder / "without"


# The step that meets the fault, and the step that goes on after it.
STEPS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "seeds": (seeds_tables, seeds),
    "compare": (compare, compare),
}


@pytest.mark.parametrize("how", STEPS)
def test_every_operation_on_tables(how: str, tmp_path: Path) -> None:
    before = begun(how, tmp_path)
    write, go_on = STEPS[how]

    def prepare(folder: Path) -> None:
        shutil.copytree(before, folder, dirs_exist_ok=True)

    last = operations(tmp_path / "count", write, prepare)
    assert last >= 12  # three files, each opened, written, forced to the disk and named
    for fault in FAULTS:
        for number, folder in after_each_fault(
            fault=fault, root=tmp_path, last=last, write=write, prepare=prepare
        ):
            go_on(folder)
            same(tmp_path / "whole/out", folder / "out")
            assert not list(folder.rglob("*.part")), f"{fault} at operation {number}"
