"""A refused site stands in the status, in the logs and in the output of ``up``, with its reason."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from fedkin.core.errors import ConfigError
from fedkin.run.federation_state import FederationState, read_state, server_state_file, write_state
from fedkin.server.deploy import verdicts
from fedkin.server.deploy.init import init
from fedkin.server.deploy.processes import SERVERAPP, SITE, SUPERLINK, Program, start, stop
from fedkin.server.deploy.selection import select
from fedkin.server.deploy.site_state import note_refusal, site_refusal
from fedkin.server.deploy.start_parts import Missing
from fedkin.server.deploy.status import (
    DOWN,
    REFUSED,
    RUN,
    PartStatus,
    log_lines,
    reason_line,
    status,
    wait_for_run,
)
from fedkin.server.deploy.up import up
from fedkin.server.deploy.verdicts import Former, former_state, say_who_takes_part
from tests.free_ports import free_ports

COLUMNS = {"site-0": "age,weight", "site-1": "age,pulse", "site-2": "age", "site-3": "age,weight"}


def write_table(folder: Path, header: str) -> None:
    count = header.count(",") + 1
    rows = [
        ",".join(str(40 + (7 * row + column) % 50) for column in range(count)) for row in range(20)
    ]
    lines = [f"{line},{'ill' if row % 3 else 'well'}" for row, line in enumerate(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.csv").write_text("\n".join([f"{header},outcome", *lines]))


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Four sites with their own tables, two of which get other columns after ``deploy init``, which
    refuses such tables."""
    folder = tmp_path / "wards"
    for name in COLUMNS:
        write_table(folder / name, COLUMNS["site-0"])
    table = [
        "data.name=file",
        "data.path=own.csv",
        "data.label=outcome",
        "data.partition=iid",
        "data.clients=1",
    ]
    names = 'data.label_names=["ill", "well"]'
    init(
        folder,
        4,
        port=free_ports(1)[0],
        secure=False,
        settings=[*table, names, "method.name=fedavg"],
    )
    for name, header in COLUMNS.items():
        write_table(folder / name, header)
    return folder


def lines_of(folder: Path) -> dict[str, PartStatus]:
    return {line.name: line for line in status(folder)}


def test_up_refuses_before_anything_starts_and_names_every_site(wards: Path) -> None:
    said: list[str] = []
    with pytest.raises(ConfigError) as refused:
        up(wards, say=said.append)
    message = str(refused.value)
    assert said == [] and "nothing was started" in message
    assert "site-1 is refused: data: " in message and "pulse" in message and "weight" in message
    assert "site-2 is refused: data: " in message and 'the columns ["age", "weight"]' in message
    assert "data.features" in message and "site-0 is" not in message and "site-3 is" not in message

    lines = lines_of(wards)
    assert {name for name, line in lines.items() if line.state == REFUSED} == {"site-1", "site-2"}
    assert "pulse" in lines["site-1"].reason and "no column weight" in lines["site-2"].reason
    assert lines["site-0"].state == DOWN and not lines["site-0"].reason
    assert "nothing" in lines[RUN].reason
    assert reason_line(lines[RUN]).startswith("the run was not started: site-1: data: ")
    logged = list(log_lines(wards, [], 9, follow=False))
    assert [line.partition(" |")[0].strip() for line in logged] == ["run", "site-1", "site-2"]
    assert "pulse" in logged[1] and all("fedkin ERROR" in line for line in logged)


def test_a_mended_site_is_no_longer_refused(wards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        up(wards)
    for name in COLUMNS:
        write_table(wards / name, "age,weight")
    monkeypatch.setattr("fedkin.server.deploy.up.start_parts", lambda *_, **__: None)
    monkeypatch.setattr("fedkin.server.deploy.up.say_who_takes_part", lambda *_, **__: True)
    assert up(wards)
    assert not [line for line in status(wards) if line.reason]


def test_a_mended_site_started_alone_leaves_the_failed_checks(
    wards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError):
        up(wards)
    write_table(wards / "site-1", "age,weight")
    monkeypatch.setattr("fedkin.server.deploy.up.start_parts", lambda *_, **__: None)
    assert up(wards, site="site-1")
    lines = lines_of(wards)
    assert not lines["site-1"].reason and lines["site-2"].reason
    assert "site-1" not in reason_line(
        lines[RUN]
    ) and "the run was not started: site-2: " in reason_line(lines[RUN])
    write_table(wards / "site-2", "age,weight")
    assert up(wards, site="site-2")
    assert not [line for line in status(wards) if line.reason]


def test_a_check_of_the_machine_alone_is_the_reason_that_is_kept(
    wards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in COLUMNS:
        write_table(wards / name, "age,weight")
    monkeypatch.setattr(
        "fedkin.server.deploy.check._installed", lambda name: None if name == "flwr" else "1.0"
    )
    with pytest.raises(ConfigError, match="this machine is refused: Flower: not installed"):
        up(wards)
    said = reason_line(lines_of(wards)[RUN])
    assert said == (
        "the run was not started: this machine: Flower: not installed: pip install 'fedkin[flower]'"
    )


def test_a_server_that_is_refused_is_among_the_reasons(wards: Path) -> None:
    server = wards / "server.toml"
    server.write_text(server.read_text().replace('name = "fedavg"', 'name = "ifca"\nclusters = 30'))
    with pytest.raises(ConfigError, match=r"server is refused: .*IFCA needs at least 30 clients"):
        up(wards, server=True)
    assert "IFCA needs at least 30 clients" in lines_of(wards)[RUN].reason


def test_sites_of_one_key_or_name_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "fed"
    init(folder, 3, port=free_ports(1)[0])
    for name in ("key", "key.pub"):
        (folder / "site-1" / name).write_bytes((folder / "site-0" / name).read_bytes())
    other = folder / "site-2/client.toml"
    other.write_text(other.read_text().replace('name = "site-2"', 'name = "site-0"'))
    with pytest.raises(ConfigError) as refused:
        up(folder)
    message = str(refused.value)
    assert (
        f"{folder}/site-1/key.pub is also the key of {folder}/site-0" in message
        and "ssh-keygen" in message
    )
    assert (
        "site-2 is refused: name: client.name is 'site-0'" in message
        and f"change client.name in {other}" in message
    )


STATE = FederationState(
    accepted=("site-0",),
    refused={"site-1": "no column weight", "elsewhere": "no room (federation.capacity)"},
    failing={"site-3": "round 2: no reply"},
    waiting="waiting for 4 clients: 1 ready, 2 refused",
)


def write_server_state(folder: Path, state: FederationState) -> None:
    write_state(server_state_file(folder / "run"), state)


def test_the_status_has_the_servers_knowledge_of_other_machines_too(wards: Path) -> None:
    write_server_state(wards, STATE)
    note_refusal(wards / "site-2", "the server does not know its key")
    lines = lines_of(wards)
    reasons = {name: line.reason for name, line in lines.items() if line.reason}
    assert reasons == {
        "site-1": "no column weight",
        "site-2": "the server does not know its key",
        "site-3": "round 2: no reply",
        "elsewhere": "no room (federation.capacity)",
    }
    states = {name: line.state for name, line in lines.items() if line.reason}
    assert states == {"site-1": REFUSED, "site-2": REFUSED, "site-3": DOWN, "elsewhere": REFUSED}
    assert reason_line(lines["site-3"]) == "site-3 has failed: round 2: no reply"
    assert reason_line(lines["site-1"]) == "site-1 is refused: no column weight"
    assert lines["site-1"].detail == "down" and not lines["site-3"].detail
    alone = {line.name: line.reason for line in status(wards, site="site-1")}
    assert alone == {"site-1": "no column weight"}
    write_server_state(wards, replace(STATE, error="too few"))
    assert lines_of(wards)[RUN].reason == "too few"


def test_a_site_is_no_longer_refused_once_it_has_done_its_task(wards: Path) -> None:
    note_refusal(wards / "site-2", "no data")
    assert site_refusal(wards / "site-2") == "no data"
    note_refusal(wards / "site-2", "")
    assert site_refusal(wards / "site-2") == "" and not (wards / "site-2/.site.json").exists()


NEW = Former(FederationState(), same_ids=False)


def said_by(
    wards: Path, *names: str, former: Former = NEW, run: bool = True
) -> tuple[bool, list[str]]:
    said: list[str] = []
    sites = [Program((wards / name).resolve(), SITE) for name in names]
    missing = Missing(superlink=run, sites=sites, run=run)
    return say_who_takes_part(select(wards), missing, former, said.append), said


def test_up_shows_the_servers_decision(wards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_server_state(wards, replace(STATE, ready=("site-2",)))
    monkeypatch.setattr(verdicts, "_START", 0.0)
    good, said = said_by(wards, "site-0", "site-1", "site-2", "site-3")
    assert not good and said[:3] == [
        "site-0: takes part",
        "site-1 is refused: no column weight",
        "site-2: is ready, and the server waits for others",
    ]
    assert said[3].startswith("site-3: the server has not reported")
    assert said_by(wards, "site-0") == (True, ["site-0: takes part"])
    write_server_state(wards, FederationState(error="IFCA needs 3 clients"))
    assert said_by(wards, "site-0") == (False, ["the run has ended: IFCA needs 3 clients"])


def test_of_a_finished_run_no_site_takes_part(wards: Path) -> None:
    """The state of the run is still there, and is not waited for."""
    write_server_state(wards, STATE)
    good, said = said_by(wards, "site-0", run=False)
    assert good and len(said) == 1 and "the run is finished" in said[0] and "run.rounds" in said[0]


@pytest.fixture
def server_process(wards: Path) -> Iterator[None]:
    """A process that is taken for the run's server."""
    part = Program(wards.resolve(), SUPERLINK)
    process = start(
        part, [sys.executable, "-c", f"import time; time.sleep(600) #{SERVERAPP}", SERVERAPP], {}
    )
    yield
    stop([part], 0.0)
    process.wait()


ACCEPTED = FederationState(accepted=("site-0",), nodes={"site-0": 1})


def test_a_site_that_comes_back_is_judged_by_the_servers_newest_words(
    wards: Path, server_process: None
) -> None:
    missing = Missing(superlink=False, sites=[], run=False)
    write_server_state(wards, ACCEPTED)
    former = former_state(select(wards), missing)
    assert former == Former(ACCEPTED, same_ids=False)
    reason = "it had 1 clients and now has 2; give it another name"
    write_server_state(wards, replace(ACCEPTED, refused={"site-0 (node 2)": reason}))
    said = said_by(wards, "site-0", former=former, run=False)
    assert said == (False, [f"site-0 is refused: {reason}"])
    write_server_state(wards, replace(ACCEPTED, nodes={"site-0": 2}))
    assert said_by(wards, "site-0", former=former, run=False) == (True, ["site-0: takes part"])


def test_earlier_words_of_the_server_are_no_verdict_about_a_site_that_comes_back(
    wards: Path, server_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "_START", 0.0)
    monkeypatch.setattr(verdicts, "_TIMEOUT", 0.3)
    write_server_state(wards, ACCEPTED)
    former = Former(ACCEPTED, same_ids=False)
    _, said = said_by(wards, "site-0", former=former, run=False)
    assert len(said) == 1 and said[0].startswith("site-0: the server has not reported")
    by_key = Former(ACCEPTED, same_ids=True)
    assert said_by(wards, "site-0", former=by_key, run=False) == (True, ["site-0: takes part"])


def test_waiting_for_a_run_without_results_ends_with_the_reason(wards: Path) -> None:
    (wards / "server.log").write_text("old line\n")
    said: list[str] = []
    write_server_state(wards, FederationState(error="IFCA needs 3 clients"))
    assert not wait_for_run(wards, said.append)
    assert said == ["error: the run has no results: IFCA needs 3 clients"]
    said.clear()
    write_server_state(wards, FederationState())
    assert not wait_for_run(wards, said.append, 0)
    assert said[0] == "old line" and f"see {wards / 'server.log'}" in said[1]


def test_a_damaged_state_is_no_state(wards: Path) -> None:
    server_state_file(wards / "run").write_text(json.dumps({"refused": 3}))
    assert read_state(server_state_file(wards / "run")) == FederationState()
    assert not [line for line in status(wards) if line.reason]
