"""Four sites with their own tables on Flower's own programs: a fifth joins, one is removed, one
gets a new key, the server restarts, and a backup goes on where it was made."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.cli import app
from fedkin.run.federation_state import FederationState, read_state, server_state_file
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, start, stop
from tests.free_ports import free_ports, until
from tests.refusals import refused
from tests.server.deploy.test_refused_sites import write_table

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
pytestmark = pytest.mark.timeout(900)  # seconds; on a busy machine every process takes many
LAST = 400  # a round that the run does not reach
TABLE = [
    "data.name=file",
    "data.path=own.csv",
    "data.label=outcome",
    "data.partition=iid",
    "data.clients=1",
    'data.label_names=["ill", "well"]',
]
RUN = [
    "method.name=fedavg",
    "run.against=[]",
    "local.epochs=1",
    f"run.rounds={LAST}",
    # The test mostly waits for other things than rounds.
    "federation.round_interval=2",
]


@pytest.fixture
def fed(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Five tables, four of them of sites; at the end no process is left."""
    monkeypatch.chdir(short_path)
    folder = short_path / "fed"
    for k in range(5):
        write_table(folder / f"site-{k}", "age,weight")
    yield folder
    for one in short_path.glob("fed*"):
        sites = [Program(path.parent, SITE) for path in one.glob("*/client.toml")]
        stop([Program(one, SUPERLINK), Program(one, STARTER), *sites], 0.0)


def fedkin(*words: str) -> str:
    """The output of a command that must end well."""
    result = CliRunner().invoke(app, ["deploy", *words])
    assert result.exit_code == 0, f"{words}\n{result.output}"
    return result.stdout


def state_of(folder: Path) -> FederationState:
    return read_state(server_state_file(folder / "run"))


def rounds(folder: Path) -> list[dict[str, object]]:
    path = folder / "run/metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def after_more_rounds(folder: Path, number: int = 2) -> dict[str, object]:
    """The record of a round that began after this call."""
    end = len(rounds(folder)) + number
    assert until(lambda: len(rounds(folder)) > end, 300), (folder / "server.log").read_text()
    return rounds(folder)[-1]


def test_sites_come_and_go_and_a_backup_goes_on(fed: Path) -> None:
    fedkin("init", "fed", "--port", str(free_ports(1)[0]), *TABLE, *RUN)
    said = fedkin("up", "fed")
    assert all(f"site-{k}: takes part" in said for k in range(4))
    assert after_more_rounds(fed, 0)["members"] == 4

    # A fifth site joins while the server runs.
    assert "the server need not be restarted" in fedkin("add", "fed", "site-4")
    fedkin("up", "fed", "--site", "site-4")
    assert until(lambda: "site-4" in state_of(fed).accepted, 120)
    assert after_more_rounds(fed)["members"] == 5

    fedkin("backup", "fed", "fed.tar")
    saved_round = len(rounds(fed))

    # A removed site's key is refused, wherever a copy of its folder runs.
    copy = fed.with_name("fed-thief") / "site-1"
    shutil.copytree(fed / "site-1", copy, ignore=shutil.ignore_patterns("client.worker"))
    assert "its key is revoked" in fedkin("remove", "fed", "site-1")
    thief = Program(copy, SITE)
    start(thief, [sys.executable, "-m", "fedkin.cli", "deploy", "node", str(copy)], {})
    assert until(lambda: "this site was refused" in thief.log.read_text(), 120)
    stop([thief], 0.0)
    record = after_more_rounds(fed)
    assert record["members"] == 4 and "scored_of" not in record
    refused(CliRunner().invoke(app, ["deploy", "remove", "fed", "site-1"]), "site-1 was removed")

    # A site with a new key is the same client. The former key is refused.
    former = (fed / "site-0/key").read_bytes()
    assert "the new key is registered" in fedkin("rotate", "fed", "site-0")
    assert until(lambda: "site-0 has another key" in (fed / "server.log").read_text(), 120)
    (copy / "key").write_bytes(former)
    thief.log.unlink()
    start(thief, [sys.executable, "-m", "fedkin.cli", "deploy", "node", str(copy)], {})
    assert until(lambda: "this site was refused" in thief.log.read_text(), 120)
    stop([thief], 0.0)
    assert after_more_rounds(fed)["members"] == 4

    # The server restarts with a new certificate. The run resumes, with the new key, too.
    fedkin("rotate", "fed", "--server")
    before = len(rounds(fed))
    assert "ended: superlink" in fedkin("restart", "fed", "--server")
    assert after_more_rounds(fed)["members"] == 4 and len(rounds(fed)) > before
    names = {"site-0", "site-2", "site-3", "site-4"}
    assert until(lambda: set(state_of(fed).accepted) == names, 120)

    # An unfinished run's models know the sites by their names.
    exported = CliRunner().invoke(app, ["export", "fed/run", "--checkpoint", "--out", "models"])
    assert exported.exit_code == 0, exported.output
    card = json.loads(Path("models/card.json").read_text())
    assert set(card["models"][0]["clients"]) >= names

    # The backup goes on at its round, with the sites that there were.
    fedkin("down", "fed")
    assert len(rounds(fed)) > saved_round
    assert "site-1 at the time of the backup" not in fedkin("backup", "fed", "later.tar")
    said = fedkin("restore", "fed.tar", "fed")
    assert "fedkin deploy rotate fed site-0" in said and "fedkin deploy remove fed site-1" in said
    assert len(rounds(fed)) <= saved_round + 1
    fedkin("up", "fed")
    assert until(lambda: set(state_of(fed).accepted) == names | {"site-1"}, 200)
    assert after_more_rounds(fed)["members"] == 5
    fedkin("down", "fed")
