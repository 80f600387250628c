"""``fedkin forget`` trains the affected models of a run again without a site."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from tests.refusals import refused

SETTINGS = (
    "data.name=digits",
    "data.clients=6",
    "method.name=ifca",
    "method.clusters=2",
    "run.against=[]",
    "run.rounds=3",
    "run.cohort=6",
    "run.checkpoint_every=1",
    "run.keep_checkpoints=true",
    "local.epochs=1",
)


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with all its checkpoints."""
    folder = tmp_path_factory.mktemp("forget") / "run"
    result = command("run", *SETTINGS, "--out", folder)
    assert result.exit_code == 0, result.output
    assert len(list((folder / "checkpoints").iterdir())) == 4
    return folder


def test_a_site_is_removed(run: Path) -> None:
    result = command("forget", run, "--site", "2")
    assert result.exit_code == 0, result.output
    assert "to remove: 2" in result.stderr and "cost: " in result.stderr
    assert "retraining the affected models without it" in result.stdout
    assert "limits:" in result.stdout
    folder = run.with_name("run-without-2")
    assert f"next: fedkin check {folder}" in result.stdout.replace("\n", " ")
    assert command("check", folder).exit_code == 0
    # The configuration in the folder, run from the beginning, gives the same models.
    again = run.with_name("again")
    assert command("run", folder / "config.toml", "--out", again).exit_code == 0
    assert np.array_equal(fk.Run.load(folder).models, fk.Run.load(again).models)


def test_the_record_as_json(run: Path) -> None:
    result = command("forget", run, "--site", "1", "--out", run.with_name("other"), "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["clients"] == [{"client": 1, "name": "1"}]
    stored = json.loads((run.with_name("other") / "forgotten.json").read_text())
    assert record == {**stored, "out": str(run.with_name("other"))}


def test_only_the_plan(run: Path) -> None:
    before = sorted(run.parent.iterdir())
    result = command("forget", run, "--site", "0", "--plan")
    assert result.exit_code == 0 and "rounds to repeat: 3 of 3" in result.stderr
    assert sorted(run.parent.iterdir()) == before


def test_bad_input(run: Path, tmp_path: Path) -> None:
    refused(command("forget", run), "--site")
    refused(command("forget", run, "--site", "9"), "positions from 0 to 5")
    refused(command("forget", run, "--site", "0", "--out", tmp_path, "--replace"), "exclude")
    refused(command("forget", tmp_path, "--site", "0"), "holds no run")
    refused(command("forget", run, "--site", "0", "--plan", "--json"), "--plan has no JSON")
    # A process was killed while it replaced the run.
    run.rename(tmp_path / ".run.before")
    refused(command("forget", tmp_path / "run", "--site", "0"), "killed", "mv", ".run.before")
