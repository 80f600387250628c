"""Clients computed by actors of Ray: the bits of one process, whatever breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.analysis.repeat import execute_seeds
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.simulation.ray.pool import check_versions, versions
from fedkin.simulation.ray.workers import positions
from tests.analysis.test_repeat import NEVER_THE_SAME, same, settings
from tests.conftest import ROOT


def test_two_machines_give_the_bits_of_one_process_also_when_they_break() -> None:
    """Ray's own processes stand for the machines; one actor is killed in a run, and one machine in
    another."""
    command = [sys.executable, "-m", "tests.process.ray_runs"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=560, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    assert [line for line in lines if "seconds" not in line] == [
        {"equal": {"ifca": True, "flexcfl": True, "fedem": True, "pacfl": True}},
        {"packed": True},
        {"summed": True},
        {"torch": True},
        {"adapters": True},
    ], done.stderr[-2000:]
    assert [name for line in lines[5:] for name in ("actor", "machine") if line.get(name)] == [
        "actor",
        "machine",
    ]


DIES = """
import os
from dataclasses import dataclass
from fedkin.methods.fedavg import FedAvg

@dataclass(frozen=True)
class %s(FedAvg):
    def init(self, world, stream):
        if len([name for name in os.listdir("ended") if name]) < %d:
            open(f"ended/{os.getpid()}", "w").close()
            os._exit(3)
        return super().init(world, stream)
"""


def test_cells_of_a_comparison_go_to_a_cluster(tmp_path: Path) -> None:
    """The folders of one process; a run whose process dies once is dealt again, one that always
    dies is named."""
    (tmp_path / "ended").mkdir()
    (tmp_path / "dying.py").write_text(DIES % ("Once", 1) + DIES % ("Always", 99))
    quick = ["data.clients=6", "run.rounds=2", "run.cohort=3", "local.epochs=1"]
    command = [sys.executable, "-m", "fedkin.cli", "compare", *quick, "--methods"]
    command += [
        "fedavg,ifca,dying:Once,dying:Always",
        "--seeds",
        "1",
        "--engine",
        "ray",
        "--out",
        "cluster",
    ]
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    cells = tmp_path / "cluster/cells/all"
    here = fk.compare(None, *quick, methods=["fedavg", "ifca"], seeds=1, out=tmp_path / "here")
    assert not here.missing
    for name in ("fedavg", "ifca"):
        same(
            cells / name / "0",
            tmp_path / "here/cells/all" / name / "0",
            NEVER_THE_SAME | {"environment.json"},
        )
    assert "the run is started again" in done.stderr
    finished = [path.parent.parent.name for path in cells.glob("*/0/summary.json")]
    assert (
        len(finished) == 3 and "the run's process on the cluster died" in done.stderr + done.stdout
    )


def test_a_run_that_the_cluster_cannot_do_is_refused(tmp_path: Path) -> None:
    for overrides, engine, words in (
        ([], "dask", "expected the engine ray"),
        (["run.engine=ray"], "ray", r"engine=ray: each process has one core; remove run\.engine"),
    ):
        with pytest.raises(ConfigError, match=words):
            fk.compare(
                None,
                "run.rounds=1",
                *overrides,
                methods=["fedavg"],
                out=tmp_path / "c",
                engine=engine,
            )
    with pytest.raises(ConfigError, match="engine=ray needs a folder"):
        execute_seeds(settings(2, 2), out=None, engine="ray")
    assert not list(tmp_path.iterdir())


def test_samples_of_some_rows_among_those_of_all() -> None:
    sizes = np.array([2, 0, 3, 1])
    assert positions(sizes, np.array([0, 2])).tolist() == [0, 1, 2, 3, 4]
    assert positions(sizes, np.array([3, 0])).tolist() == [5, 0, 1]
    assert positions(sizes, np.array([1])).tolist() == []


def test_an_engine_that_is_none_is_refused() -> None:
    data = fk.data.synthetic(clients=4, samples=5)
    with pytest.raises(ConfigError, match="expected the engine ray"):
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=1,
            cohort=2,
            compute=fk.Compute(engine="dask"),
        )
    with pytest.raises(ConfigError, match=r"run\.engine"):
        load(None, ["run.engine=dask"])
    assert load(None, ["run.engine=ray:auto", "run.actors=3"]).run.actors == 3


def test_a_machine_with_other_versions_is_named() -> None:
    own = versions()
    assert own["jax"] == version("jax")
    check_versions("m1", own, own)
    with pytest.raises(
        ConfigError, match=rf"machine m2 of the cluster has jax 0\.1, here {own['jax']}: install"
    ):
        check_versions("m2", own | {"jax": "0.1"}, own)
    with pytest.raises(ConfigError, match="fedkin None"):
        check_versions("m2", {name: own[name] for name in ("Python", "jax", "numpy")}, own)
    with pytest.raises(ConfigError, match=rf"has Python 3\.9, here {own['Python']}: install"):
        check_versions("m2", own | {"Python": "3.9"}, own)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    data = fk.data.synthetic(clients=4, samples=5)
    with pytest.raises(MissingExtra, match=r"fedkin\[ray\]"):
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=1,
            cohort=2,
            compute=fk.Compute(engine="ray"),
        )
