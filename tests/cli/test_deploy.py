"""``fedkin deploy``: output, status, and refusals. The checks themselves are tested in
tests/server/deploy/test_check.py."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from safetensors.numpy import save
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.core.codec import encode
from fedkin.server.deploy import check
from tests.free_ports import free_ports
from tests.refusals import refused


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["deploy", *map(str, arguments)])


def test_init_prints_how_to_start(elsewhere: Path) -> None:
    result = fedkin(
        "init", "fed", "--clients", "2", "--insecure", "--port", "18000", "local.epochs=2"
    )
    assert result.exit_code == 0, result.output
    assert "2 sites in fed (new: site-0, site-1); the server is at 127.0.0.1:18000" in result.stdout
    assert result.stdout.splitlines()[1:] == [
        "start all with one command: fedkin deploy up fed",
        "the commands that start each part by hand: fed/COMMANDS.md",
    ]
    commands = (elsewhere / "fed/COMMANDS.md").read_text()
    assert f"cd {elsewhere / 'fed'}\n" in commands and "for site in site-0 site-1; do" in commands
    assert "epochs = 2" in (elsewhere / "fed/server.toml").read_text()
    again = fedkin("init", "fed", "--clients", "3", "--insecure")
    assert again.exit_code == 0 and "3 sites in fed (new: site-2)" in again.stdout
    assert "(none new)" in fedkin("init", "fed", "--clients", "3", "--insecure").stdout


def test_check_exits_with_one_if_a_check_fails(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
    monkeypatch.setattr(
        check, "_installed", lambda package: "1.41.0" if package == "flwr" else "1.0"
    )
    fedkin("init", "fed", "--clients", "2", "--port", str(free_ports(1)[0]))
    result = fedkin("check", "fed")
    assert result.exit_code == 0 and "✗" not in result.stdout, result.stdout
    assert "650 parameters" in result.stdout and "! " in result.stdout
    (elsewhere / "fed/site-1/key").chmod(0o644)
    assert fedkin("check", "fed", "--server").exit_code == 0
    assert fedkin("check", "fed", "--site", "site-0").exit_code == 0
    result = fedkin("check", "fed", "--site", "site-1")
    assert result.exit_code == 1 and "chmod 600" in result.stdout and result.stderr == ""


def test_words_in_brackets_are_printed(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2", "--insecure")
    path = elsewhere / "fed/site-0/client.toml"
    path.write_text(path.read_text().replace("classes = 10", "classes = 9"))
    result = fedkin("check", "fed", "--site", "site-0")
    assert result.exit_code == 1 and "[samples] says [64] and 9" in " ".join(result.stdout.split())


def test_bad_input_is_one_line(elsewhere: Path) -> None:
    refused(fedkin("init", "fed", "--clients", "0"), "--clients", "got 0")
    refused(fedkin("init", "fed", "--clients", "two"), "two")
    refused(fedkin("init", "fed", "nonsense"), "section.key=value")
    refused(
        fedkin("init", "fed", "--insecure", "run.round=3"), "run.round", "did you mean 'rounds'"
    )
    refused(fedkin("check", "fed"), "neither server.toml nor")
    fedkin("init", "fed", "--clients", "2", "--insecure")
    refused(fedkin("init", "fed", "--clients", "3"), "without keys", "--insecure")
    refused(fedkin("check", "fed", "--server", "--site", "site-0"), "cannot be combined")
    refused(fedkin("check", "fed", "--site", "site-9"), "site-0, site-1")
    refused(fedkin("init"), "DIR")


def test_a_file_where_the_folder_should_be(elsewhere: Path) -> None:
    (elsewhere / "fed").write_text("a file")
    refused(fedkin("init", "fed", "--clients", "2"), "fed")


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    refused(fedkin("init", "fed"), "pip install 'fedkin[flower]'", "--insecure")


def test_a_site_that_leaves_deletes_its_clients_memory(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2", "--insecure")
    own, other = (elsewhere / f"fed/site-{number}/state" for number in (0, 1))
    for folder in (own, other):
        folder.mkdir(exist_ok=True)
        for name in (
            "trial-fedavg-1.safetensors",
            "trial-fedavg-1-models.safetensors",
            "notes.txt",
        ):
            (folder / name).write_bytes(encode({}, {}) if name.startswith("trial") else b"x")
        (folder / "samples.safetensors").write_bytes(save({"x": np.ones(2)}))  # not fedkin's
    result = fedkin("leave", "fed/site-0/client.toml")
    assert result.exit_code == 0 and "site-0: deleted 2 files" in result.stdout, result.output
    assert sorted(path.name for path in own.iterdir()) == ["notes.txt", "samples.safetensors"]
    assert len(list(other.iterdir())) == 4
    assert (
        "site-0: there are no files to delete" in fedkin("leave", "fed/site-0/client.toml").stdout
    )
    refused(fedkin("leave", "fed/site-7/client.toml"), "fed/site-7")


def test_parts_that_do_not_run_are_shown_and_ended_without_harm(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2", "--insecure", "--port", str(free_ports(1)[0]))
    result = fedkin("status", "fed")
    assert (
        result.exit_code == 1
        and result.stdout.count("down") == 4
        and "flexcfl not begun" in result.stdout
    )
    result = fedkin("down", "fed")
    assert result.exit_code == 0 and result.stdout == "no part was running\n"
    (elsewhere / "fed/superlink.log").write_text("one\ntwo\n")
    assert fedkin("logs", "fed", "superlink", "-n", "1").stdout == "superlink | two\n"
    refused(fedkin("logs", "fed", "site-9"), "fed: there is no part site-9")


def test_paths_are_whole_on_a_narrow_terminal(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path in the last column of the table would be wrapped in its middle."""
    monkeypatch.setenv("COLUMNS", "40")
    folder = elsewhere / "a-long-name-of-a-hospital" / "and-its-federation"
    fedkin("init", str(folder), "--clients", "2", "--insecure", "--port", str(free_ports(1)[0]))
    shown = fedkin("status", str(folder)).stdout
    assert f"\nrun: in {folder}/run\n" in shown


def test_up_is_refused_in_one_line(elsewhere: Path) -> None:
    pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        fedkin("init", "fed", "--clients", "2", "--insecure", "--port", str(port))
        refused(fedkin("up", "fed"), f"port {port} of the SuperLink cannot be used")
    refused(fedkin("up", "fed", "--server", "--site", "site-0"), "cannot be combined")
    refused(fedkin("up", "elsewhere"), "neither server.toml")


def test_a_node_without_its_file_is_refused(elsewhere: Path) -> None:
    refused(fedkin("node", "nowhere"), "client.toml")


def test_init_writes_a_compose_file_where_asked(elsewhere: Path) -> None:
    result = fedkin("init", "fed", "--clients", "2", "--insecure", "--compose")
    assert (
        "docker compose --file fed/compose.yaml up" in result.stdout
        and "server:8000" in result.stdout
    )
    assert (elsewhere / "fed/compose.yaml").read_text().count("restart") == 4
