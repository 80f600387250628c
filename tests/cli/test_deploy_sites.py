"""``fedkin deploy add``, ``remove``, ``rotate``, ``backup``, ``restore`` and ``restart``: what they
print, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
from fedkin.cli import app
from tests.free_ports import free_ports
from tests.refusals import refused


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fedkin(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["deploy", *arguments])


def test_sites_come_and_go_by_one_command_each() -> None:
    assert fedkin("init", "fed", "--port", "18000").exit_code == 0
    added = fedkin("add", "fed", "site-4")
    assert added.exit_code == 0
    assert "start the site: fedkin deploy up fed\n" in added.stdout
    removed = fedkin("remove", "fed", "site-1")
    assert removed.exit_code == 0 and "its folder is kept in fed/removed/site-1-" in removed.stdout
    rotated = fedkin("rotate", "fed", "site-0")
    assert rotated.exit_code == 0 and "site-0: its key is in fed/site-0" in rotated.stdout
    again = fedkin("init", "fed")
    assert "4 sites in fed (none new)" in again.stdout
    refused(fedkin("remove", "fed", "site-1"), "site-1 was removed from fed on", "deploy add fed")
    refused(fedkin("remove", "fed", "site-7"), "unknown site 'site-7'")
    refused(fedkin("add", "fed", "site-0"), "site-0 is a site of fed already")
    refused(fedkin("rotate", "fed"), "name the site", "fedkin deploy rotate fed SITE")
    refused(fedkin("rotate", "fed", "site-0", "--server"), "fedkin deploy rotate fed --server")
    refused(fedkin("remove", "nowhere", "site-0"), "nowhere", "server.toml")


def test_a_backup_of_another_federation_is_refused_in_one_line(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2")
    fedkin("init", "other", "--clients", "2", "federation.name=north")
    saved = fedkin("backup", "fed", "fed.tar")
    assert saved.exit_code == 0 and "federation 'trial' (authority " in saved.stdout
    assert "it holds private keys" in saved.stdout
    refused(
        fedkin("restore", "fed.tar", "other"),
        "fed.tar is a backup of federation 'trial'",
        "other holds federation 'north'",
        "fedkin deploy restore fed.tar other-restored",
    )
    restored = fedkin("restore", "fed.tar", "new/fed")
    assert restored.exit_code == 0, restored.stderr
    assert (elsewhere / "new/fed/server.toml").exists()
    refused(fedkin("restore", "fed/server.toml", "third"), "is no backup of fedkin deploy")


@pytest.mark.skipif(not Path("/proc/self/environ").is_file(), reason="processes are in /proc")
def test_a_misspelt_key_of_a_server_and_of_a_site(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2", "--port", str(free_ports(1)[0]))
    site = elsewhere / "fed/site-1/client.toml"
    text = site.read_text()
    assert "\nclients" in text
    site.write_text(text.replace("\nclients", "\ncleints"))
    words = ["client.cleints: ", "did you mean 'clients'?", "For example clients = "]
    refused(fedkin("node", "fed/site-1"), "fed/site-1/client.toml: ", *words)
    refused(fedkin("up", "fed"), "nothing was started: site-1 is refused: ", *words)
    site.write_text(text)
    server = elsewhere / "fed/server.toml"
    text = server.read_text()
    assert "\ncapacity" in text
    server.write_text(text.replace("\ncapacity", "\ncapasity"))
    words = ["federation.capasity: ", "did you mean 'capacity'?", "For example capacity = "]
    refused(fedkin("up", "fed"), "fed/server.toml: ", *words)
    refused(fedkin("init", "new", "federation.capasity=3"), "new/server.toml: ", *words)
    assert not Path("new").exists()


@pytest.mark.skipif(not Path("/proc/self/environ").is_file(), reason="processes are in /proc")
def test_restart_without_running_parts_is_a_start(elsewhere: Path) -> None:
    fedkin("init", "fed", "--clients", "2", "--port", str(free_ports(1)[0]))
    (elsewhere / "fed/site-1/key").chmod(0o644)
    result = fedkin("restart", "fed")
    assert result.exit_code == 2 and "no part was running" in result.stdout
    assert "site-1 is refused: key is secret" in result.stderr and sys.platform == "linux"
