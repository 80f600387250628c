"""Real federations that refuse: two of four sites with wrong columns, and a server that gives up
its run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.cli import app
from fedkin.cli.live_pages import deployment_page
from fedkin.reporting.html.live import LivePage
from fedkin.run.federation_state import FederationState, read_state, server_state_file
from fedkin.server.deploy.flower_commands import wait_for_superlink
from fedkin.server.deploy.init import init
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, start, stop
from fedkin.server.deploy.start_parts import start_superlink
from fedkin.server.deploy.status import log_lines, wait_for_run
from fedkin.server.deploy.up import up
from tests.free_ports import free_ports, until
from tests.server.deploy.test_refused_sites import COLUMNS, write_table

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
pytestmark = pytest.mark.timeout(900)  # seconds; on a busy machine every process takes many
REASONS = {"site-1": "pulse", "site-2": "no column weight"}


def parts(folder: Path) -> list[Program]:
    sites = [Program(path.parent.resolve(), SITE) for path in sorted(folder.glob("*/client.toml"))]
    return [Program(folder, SUPERLINK), Program(folder, STARTER), *sites]


@pytest.fixture
def wards(short_path: Path) -> Iterator[Path]:
    folder = short_path / "wards"
    for name in COLUMNS:  # deploy init refuses tables with other columns
        write_table(folder / name, COLUMNS["site-0"])
    table = [
        "data.name=file",
        "data.path=own.csv",
        "data.label=outcome",
        "data.partition=iid",
        "data.clients=1",
        "data.scale=none",
    ]
    run = ["method.name=fedavg", "run.against=[]", "run.rounds=1", "federation.start_deadline=60"]
    init(
        folder,
        4,
        port=free_ports(1)[0],
        secure=False,
        settings=[*table, 'data.label_names=["ill", "well"]', *run],
    )
    for name, header in COLUMNS.items():
        write_table(folder / name, header)
    yield folder
    stop(parts(folder), 0.0)


def state_of(folder: Path) -> FederationState:
    return read_state(server_state_file(folder / "run"))


def assert_both_refused(lines: list[str]) -> None:
    """Each refused site stands in some line with its reason and the columns that are expected."""
    for name, reason in REASONS.items():
        found = [line for line in lines if name in line and "refused" in line and reason in line]
        assert found and '["age", "weight"]' in found[0].replace('\\"', '"'), lines
    assert not [
        line for line in lines if "site-0 is refused" in line or "site-3 is refused" in line
    ]


def test_sites_with_wrong_columns_are_seen_everywhere_and_the_run_ends(wards: Path) -> None:
    """The sites are started one by one, as on other machines:
    their checks are not those of ``up``."""
    start_superlink(wards)
    wait_for_superlink(wards)
    sites = parts(wards)[2:]
    for part in sites:
        start(part, [sys.executable, "-m", "fedkin.cli", "deploy", "node", str(part.folder)], {})
    # The run begins when all sites are online and their workers have started, so the deadline of
    # its first round, which the test waits for, can be short.
    for part in sites:
        assert until(lambda log=part.log: "is connected to" in log.read_text(), 300), part.name
    up(wards, server=True)
    assert until(lambda: state_of(wards).refused.keys() == REASONS.keys(), 300), state_of(wards)
    assert until(lambda: set(state_of(wards).ready) == {"site-0", "site-3"}, 300), state_of(wards)

    shown = CliRunner().invoke(app, ["deploy", "status", str(wards)])
    assert shown.exit_code == 1
    assert_both_refused(shown.stdout.splitlines())
    printed = json.loads(CliRunner().invoke(app, ["deploy", "status", str(wards), "--json"]).stdout)
    assert_both_refused(
        [f"{part['name']} is {part['state']}: {part['reason']}" for part in printed["parts"]]
    )
    assert_both_refused(deployment_page(wards).status()["problems"])
    page = LivePage(wards / "run").status()
    assert_both_refused(page["problems"])
    assert "waiting for 4 clients: 2 ready, 2 refused" in page["state"]
    logged = list(log_lines(wards, [], 99, follow=False))
    assert_both_refused([line for line in logged if line.startswith("run")])
    for name in REASONS:
        assert [
            line
            for line in logged
            if line.startswith(name) and "this site is refused: data: " in line
        ]

    said: list[str] = []
    assert not wait_for_run(wards, said.append)
    assert_both_refused(said[-1].replace("; site", "\nsite").splitlines())
    for words in (
        "2 of 4 clients are ready",
        "set federation.wait_for=2",
        "federation.start_deadline",
        "deploy up",
    ):
        assert words in said[-1]
    assert not (wards / "run/config.toml").exists()

    # The tables are mended while the sites run, and the same command starts the run again.
    for name in REASONS:
        write_table(wards / name, "age,weight")
    assert up(wards, say=said.append)
    assert wait_for_run(wards, said.append), said
    assert set(state_of(wards).accepted) == set(COLUMNS) and not state_of(wards).lines()
    assert CliRunner().invoke(app, ["deploy", "status", str(wards)]).exit_code == 0


@pytest.fixture
def trial(short_path: Path) -> Iterator[Path]:
    """A method that turns out to need more clients than have come."""
    folder = short_path / "fed"
    method = [
        "method.name=flexcfl",
        "method.clusters=3",
        "run.cohort=3",
        "run.against=[]",
        "federation.wait_for=2",
    ]
    init(folder, 2, port=free_ports(1)[0], secure=False, settings=method)
    yield folder
    stop(parts(folder), 0.0)


def test_a_server_that_gives_up_says_why(trial: Path) -> None:
    result = CliRunner().invoke(app, ["deploy", "up", str(trial), "--wait"])
    assert result.exit_code == 1, result.output
    reason = state_of(trial).error
    assert (
        "3" in reason
        and "clusters" in reason
        and f"error: the run has no results: {reason}" in result.stdout
    )
    shown = CliRunner().invoke(app, ["deploy", "status", str(trial)])
    assert shown.exit_code == 1 and f"the run has ended: {reason}" in shown.stdout

    def is_logged() -> bool:
        logged = log_lines(trial, ["run"], 99, follow=False)
        return any("fedkin ERROR: the run has ended" in line and reason in line for line in logged)

    # The server states its reason first, and logs it when it has closed what it holds.
    assert until(is_logged, 60)
