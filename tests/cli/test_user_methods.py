"""A user's method on the command line: run, resumed, compared, reported, by module:Class."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.analysis.compare.comparison import Comparison
from fedkin.cli import app
from fedkin.cli.common import BAD_INPUT
from fedkin.run.run import Run
from tests.refusals import refused

MODULE = """
from __future__ import annotations
from dataclasses import dataclass, replace
import numpy as np
import fedkin as fk
from fedkin.tasks.train import train


@dataclass(frozen=True)
class CountingState(fk.State):
    rounds: np.ndarray  # trained


@dataclass(frozen=True)
class Counting:
    clusters: int = 2

    def init(self, world, stream) -> CountingState:
        start = world.initial(stream.child("model"))
        return CountingState(
            np.stack([start] * self.clusters), np.arange(world.total_clients) % 2, np.array(0)
        )

    def round(self, world, state, cohort, stream) -> CountingState:
        reply = train(
            world,
            state.models,
            cohort,
            state.assignment[cohort],
            reduce=True,
            stream=stream.child("train"),
        )
        return replace(
            state, models=state.models + reply.update, rounds=np.asarray(state.rounds + 1)
        )

    def place(self, world, state, newcomers, stream) -> CountingState:
        return state
"""
NAME = "counting_method_module:Counting"
QUICK = ["data.clients=8", "run.rounds=2", "run.cohort=3", "local.epochs=1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in the folder of the module."""
    (tmp_path / "counting_method_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("counting_method_module", None)
    return tmp_path


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_it_is_run_against_others_resumed_and_reported(folder: Path) -> None:
    result = fedkin(
        "run", *QUICK, "method.name=fedavg", f"run.against=['{NAME}']", "--out", "a", "--json"
    )
    assert result.exit_code == 0, result.output
    assert "Counting" in result.stderr
    inner = folder / "a/against/counting_method_module-Counting"
    assert list(json.loads(result.stdout)["against"]) == [NAME] and (inner / "figure.png").exists()
    again = fedkin("run", "--resume", "a", "run.rounds=3")
    assert again.exit_code == 0, again.output
    run = Run.load("a").against[NAME]
    state: Any = run.state
    assert (type(state).__name__, int(state.rounds), run.records[-1]["round"]) == (
        "CountingState",
        3,
        3,
    )
    reported = fedkin("report", "a")
    assert reported.exit_code == 0 and "Counting" in (folder / "a/report.html").read_text()
    alone = fedkin("run", *QUICK, f"method.name={NAME}", "run.against=[]")
    assert alone.exit_code == 0 and [
        p.name.startswith("digits-Counting-") for p in (folder / "runs").iterdir()
    ] == [True]


def test_it_is_compared_and_its_label_is_the_class(folder: Path) -> None:
    result = fedkin("compare", *QUICK, "--methods", f"{NAME},fedavg", "--seeds", "1", "--out", "c")
    assert result.exit_code == 0, result.output
    assert (folder / "c/comparison.tex").read_text().count("Counting & 1 &") == 1
    assert fedkin("compare", "--resume", "c", "--seeds", "2").exit_code == 0
    found = Comparison.load("c")
    assert found.methods == ("Counting", "FedAvg") and not found.missing
    assert fedkin("report", "c").exit_code == 0


def test_an_error_in_the_method_fails_its_cell_and_the_command(folder: Path) -> None:
    path = folder / "counting_method_module.py"
    path.write_text(
        path.read_text().replace("reply = train", "raise KeyError('lost'); reply = train")
    )
    result = fedkin("compare", *QUICK, "--methods", f"{NAME},fedavg", "--seeds", "1", "--out", "c")
    assert result.exit_code == BAD_INPUT and "Counting: not run: KeyError: 'lost'" in result.output
    assert Comparison.load("c").finished.keys() == {("", "FedAvg", 0)}


def test_a_failed_import_is_one_line(folder: Path) -> None:
    refused(
        fedkin("run", *QUICK, "method.name=nowhere_at_all:Mine"),
        "method.name",
        "no module 'nowhere_at_all'",
    )
    refused(
        fedkin("compare", *QUICK, "--methods", "nowhere_at_all:Mine"),
        "compare.methods",
        "PYTHONPATH",
    )
