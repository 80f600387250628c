"""``fedkin advise``: what it prints, what it draws, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedkin.cli import advise as module
from fedkin.cli import app
from tests.refusals import refused

IID = ["data.partition=iid", "data.clients=12", "local.lr=0.3"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["advise", *arguments])


def test_of_alike_clients_it_says_no(elsewhere: Path) -> None:
    (elsewhere / "study.toml").write_text('[data]\nname = "digits"\n[method]\nname = "ifca"\n')
    result = fedkin("study.toml", *IID, "--out", "a.png")
    assert result.exit_code == 0, result.output
    assert "do not cluster: no split of the clients holds" in result.stdout and 'name = "fedavg"' in result.stdout
    assert "label divergence" in result.stdout and "clients return: 1" in result.stdout
    assert "pilot 1 of 3" in result.stderr and "pilot" not in result.stdout
    assert {path.name for path in elsewhere.iterdir()} == {"study.toml", "a.png", "a.svg"}


def test_json_is_all_of_stdout(elsewhere: Path) -> None:
    result = fedkin(*IID, "--json", "--private-labels")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert len(result.stdout.splitlines()) == 1 and told["verdict"] == "do not cluster" and told["clusters"] == 1
    assert [row["measure"] for row in told["differences"]] == ["PNI", "gradient dissimilarity"]
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run.rouns=3"], ["unknown key 'rouns'", "did you mean 'rounds'"]),
        (["nothing.toml"], ["nothing.toml", "no such file"]),
        (["data.clients=5"], ["at least 8 clients", "got 5 of 5"]),
        (["data.size=32", "model.name=detector", "data.clients=10"], ["got a detector"]),
        (["data.clents=5"], ["unknown key 'clents'"]),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: list[str]) -> None:
    refused(fedkin(*arguments), *words)


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "configured", stop)
    result = fedkin()
    assert result.exit_code == 130 and "interrupted" in result.stderr
