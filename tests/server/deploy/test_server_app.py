"""Flower's ServerApp: a refusal of the server is logged, kept for the status, and ends by an
ordinary exception."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid

from fedkin.run.federation_state import FederationState, read_state, server_state_file
from fedkin.server.deploy import run_server, server_app
from fedkin.server.deploy.server_app import RunFailedError
from fedkin.server.message import RpcMessage
from tests.server.memory_transport import MemoryTransport

FILE = """
[federation]
capacity = 2
{federation}
[samples]
shape = [6]
classes = 6
[model]
name = "mclr"
[method]
name = "ifca"
clusters = {clusters}
[run]
rounds = 1
cohort = 2
"""


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """fedkin's log as it was before."""
    log = logging.getLogger("fedkin")
    handlers = list(log.handlers)
    propagate = log.propagate
    yield
    for handler in set(log.handlers) - set(handlers):
        log.removeHandler(handler)
        handler.close()
    log.propagate = propagate


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> MemoryTransport:
    """An engine in memory in place of Flower's, with the server's clock. Its only site refuses."""
    engine = MemoryTransport()
    engine.join(1, lambda request: RpcMessage({"failed": "no column age", "name": "berlin"}))
    monkeypatch.setattr(server_app, "FlowerTransport", lambda grid: engine)

    def serve(config: Any, transport: MemoryTransport, **how: Any) -> Any:
        clock = engine.clock
        return run_server.serve(config, transport, clock=clock.time, sleep=clock.sleep, **how)

    monkeypatch.setattr(server_app, "serve", serve)
    return engine


def start(folder: Path, clusters: int = 2, federation: str = "") -> None:
    (folder / "server.toml").write_text(FILE.format(clusters=clusters, federation=federation))
    run_with({"config": str(folder / "server.toml")})


def run_with(run_config: dict[str, Any]) -> None:
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=run_config
    )
    server_app.main(Mock(spec=Grid), context)


def error_of(folder: Path) -> str:
    return read_state(server_state_file(folder / "run")).error


def test_a_method_that_needs_more_clients_is_refused_in_log_and_state(
    tmp_path: Path, transport: MemoryTransport
) -> None:
    with pytest.raises(RunFailedError, match="needs at least 3 clients"):
        start(tmp_path, clusters=3)
    assert "needs at least 3 clients" in error_of(tmp_path)
    log = (tmp_path / "server.log").read_text()
    assert "fedkin ERROR: the run has ended: " in log and "needs at least 3 clients" in log
    assert "Traceback" not in log and not (tmp_path / "run").exists()


def test_too_few_clients_end_the_run(tmp_path: Path, transport: MemoryTransport) -> None:
    with pytest.raises(RunFailedError, match="0 of 1 clients are ready after 30 s"):
        start(tmp_path, federation="start_deadline = 30.0")
    state = read_state(server_state_file(tmp_path / "run"))
    assert "0 of 1 clients are ready" in state.error and state.waiting == ""
    assert state.refused == {"berlin": "no column age"}
    assert "0 of 1 clients are ready" in (tmp_path / "server.log").read_text()


def test_a_server_that_is_stopped_no_longer_waits(
    tmp_path: Path, transport: MemoryTransport
) -> None:
    """A signal ends the process by a SystemExit. The state before it names the missing clients."""
    states: list[FederationState] = []

    def stop() -> None:
        states.append(read_state(server_state_file(tmp_path / "run")))
        raise SystemExit

    transport.clock.at(5.0, stop)
    with pytest.raises(SystemExit):
        start(tmp_path)
    assert states[0].waiting == "waiting for 1 client: 0 ready, 1 refused"
    assert read_state(server_state_file(tmp_path / "run")) == replace(states[0], waiting="")


def test_a_run_with_results_forgets_failures_and_keeps_refusals(tmp_path: Path) -> None:
    writer = run_server.StateWriter(tmp_path / "run")
    refused = FederationState(refused={"berlin": "no column age"})
    writer._write(replace(refused, failing={"rome": "round 2: no reply"}))
    writer.finish()
    assert read_state(writer.path) == refused


def test_a_file_that_cannot_be_read_is_in_the_log(
    tmp_path: Path, transport: MemoryTransport
) -> None:
    with pytest.raises(
        RunFailedError, match=r"federation\.start_deadlin.*did you mean 'start_deadline'"
    ):
        start(tmp_path, federation="start_deadlin = 30.0")
    assert "did you mean 'start_deadline'" in (tmp_path / "server.log").read_text()


def test_an_error_in_the_program_is_logged_with_its_place_and_kept(
    tmp_path: Path, transport: MemoryTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("nothing")

    monkeypatch.setattr(run_server, "RemoteWorlds", fail)
    with pytest.raises(KeyError):
        start(tmp_path)
    assert error_of(tmp_path) == "KeyError: 'nothing'"
    assert "Traceback" in (tmp_path / "server.log").read_text()


def test_the_state_of_an_earlier_run_is_forgotten(
    tmp_path: Path, transport: MemoryTransport
) -> None:
    for clusters, words in ((3, "needs at least 3 clients"), (2, "0 of 1 clients are ready")):
        with pytest.raises(RunFailedError):
            start(tmp_path, clusters=clusters)
        assert words in error_of(tmp_path)


def test_a_run_without_its_file_is_refused(transport: MemoryTransport) -> None:
    with pytest.raises(RunFailedError, match="must name the server's file"):
        run_with({})
