"""``fedkin peer``: output and refusals; processes are in tests/process/test_peers.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.cli.peer import _RoundPrinter
from tests.refusals import refused


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["peer", *map(str, arguments)])


def test_init_says_how_to_start_them(elsewhere: Path) -> None:
    result = fedkin("init", "fed", "--peers", "2", "local.epochs=2")
    assert result.exit_code == 0, result.output
    assert "fedkin peer --config fed/peer-1/peer.toml" in result.stdout
    assert "epochs = 2" in (elsewhere / "fed/peer-0/peer.toml").read_text()


@pytest.mark.parametrize("run", [[], ["run"]])
def test_a_peer_runs_with_or_without_the_word(run: list[str]) -> None:
    pytest.importorskip("zenoh")
    assert (
        fedkin(
            "init",
            "fed",
            "--peers",
            "1",
            "data.clusters=1",
            "data.samples=20",
            "method.name=local",
            "network.listen=['tcp/127.0.0.1:0']",
        ).exit_code
        == 0
    )
    result = fedkin(*run, "--config", "fed/peer-0/peer.toml", "peer.rounds=2")
    assert result.exit_code == 0, result.output
    assert "round 1: accuracy 0." in result.stdout and "stopped after round 2" in result.stdout


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("accuracy", 0.8125, "accuracy 0.812"),
        ("root_mean_squared_error", 0.00123456, "RMSE 0.001235"),
        ("root_mean_squared_error", 12345.678, "RMSE 12,346"),
        ("concordance_index", None, "no test data"),
    ],
)
def test_a_line_has_the_measure_of_the_labels(
    name: str, value: float | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _RoundPrinter()({"round": 3, name: value, "neighbours": ["peer-1"]})
    assert capsys.readouterr().out == f"round 3: {text}; neighbours: peer-1\n"


def test_bad_input_is_one_line(elsewhere: Path) -> None:
    refused(fedkin("--config", "none.toml"), "none.toml", "no such file")
    refused(fedkin("run"), "--config")
    fedkin("init", "fed", "--peers", "2")
    config = "fed/peer-0/peer.toml"
    refused(fedkin("--config", config, "peer.rounds=x"), "peer.rounds")
    refused(fedkin("--config", config, "nonsense"), "section.key=value")
    refused(fedkin("--config", config, "peer.client=2"), "peer.client", "0 to 1, got 2")
    refused(fedkin("--config", config, "data.samples=100000"), "data: ")
    refused(fedkin("init", "fed", "--peers", "0"), "at least one peer")
    refused(fedkin("init", "fed", "--peers", "2", "--tls"), "without certificates")


def test_a_file_where_the_folder_should_be(elsewhere: Path) -> None:
    (elsewhere / "fed").write_text("a file")
    refused(fedkin("init", "fed", "--peers", "2"), "fed")


def test_without_zenoh_or_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    fedkin("init", "fed", "--peers", "2")
    monkeypatch.setitem(sys.modules, "zenoh", None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    refused(fedkin("--config", "fed/peer-0/peer.toml"), "pip install 'fedkin[p2p]'")
    refused(fedkin("init", "tls", "--peers", "2", "--tls"), "pip install 'fedkin[p2p]'")
