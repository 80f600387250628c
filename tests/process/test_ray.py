"""Clients computed by actors of Ray: the bits of one process, whatever breaks."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.simulation.ray_workers import positions
from tests.conftest import ROOT


@pytest.mark.timeout(300)
def test_two_machines_give_the_bits_of_one_process_also_when_they_break() -> None:
    """Ray's own processes stand for the machines; one actor is killed in a run, and one machine in another."""
    command = [sys.executable, "-m", "tests.process.ray_runs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    assert [line for line in lines if not line.get("seconds")] == [
        {"equal": {"ifca": True, "flexcfl": True, "fedem": True, "pacfl": True}},
        {"packed": True},
    ], done.stderr[-2000:]
    assert [name for line in lines[2:] for name in ("actor", "machine") if line.get(name)] == ["actor", "machine"]


def test_samples_of_some_rows_among_those_of_all() -> None:
    sizes = np.array([2, 0, 3, 1])
    assert positions(sizes, np.array([0, 2])).tolist() == [0, 1, 2, 3, 4]
    assert positions(sizes, np.array([3, 0])).tolist() == [5, 0, 1]
    assert positions(sizes, np.array([1])).tolist() == []


def test_an_engine_that_is_none_is_refused() -> None:
    data = fk.data.synthetic(clients=4, samples=5)
    with pytest.raises(ConfigError, match="expected the engine ray"):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, engine="dask")
    with pytest.raises(ConfigError, match=r"run\.engine"):
        load(None, ["run.engine=dask"])
    assert load(None, ["run.engine=ray:auto", "run.actors=3"]).run.actors == 3


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    data = fk.data.synthetic(clients=4, samples=5)
    with pytest.raises(MissingExtra, match=r"fedkin\[ray\]"):
        fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, engine="ray")
