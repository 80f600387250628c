"""The live page: its account of a run that goes on, and the requests that it answers."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.core.errors import ConfigError
from fedkin.reporting.html.live import DeploymentLines, LivePage
from fedkin.reporting.html.live_progress import (
    MethodProgress,
    methods_of,
    progress_text,
    seconds_left,
)
from fedkin.reporting.html.live_server import LiveServer
from fedkin.run.federation_state import FederationState, server_state_file, write_state

Ask = Callable[..., tuple[int, bytes]]


@pytest.fixture
def unfinished(run_folder: Path) -> Path:
    """A run of two methods that has come to round 1 of 2."""
    for folder in (run_folder, *run_folder.glob("against/*")):
        (folder / "summary.json").unlink()
        lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        (folder / "metrics.jsonl").write_text("".join(lines[:2]))
    return run_folder


@pytest.fixture
def served(unfinished: Path) -> Iterator[tuple[LiveServer, Ask]]:
    page = LivePage(
        unfinished,
        lambda: DeploymentLines([("superlink", "up", "for 3 min")], ["<b>site-0</b> refused"]),
    )
    with LiveServer(page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def ask(path: str, how: str = "GET") -> tuple[int, bytes]:
            connection = HTTPConnection("127.0.0.1", server.server_address[1])
            connection.request(how, path)
            reply = connection.getresponse()
            return reply.status, reply.read()

        yield server, ask
        server.shutdown()
        thread.join()


def test_the_status_shows_the_last_records(unfinished: Path) -> None:
    record = json.loads((unfinished / "metrics.jsonl").read_text().splitlines()[-1])
    status = LivePage(unfinished).status()
    assert "running" in status["state"] and [row[0] for row in status["runs"]] == [
        "fedgroup",
        "fedavg",
    ]
    _, round, accuracy, *_ = status["runs"][0]
    assert round == "1 of 2" and accuracy == f"{100 * record['accuracy']:.1f}%"
    assert status["runs"][0][4] == "/".join(map(str, record["cluster_sizes"]))


def test_a_run_that_has_not_begun_and_one_that_is_finished(
    run_folder: Path, tmp_path: Path
) -> None:
    assert "not started" in LivePage(tmp_path / "later").status()["state"]
    assert "finished" in LivePage(run_folder).status()["state"]


def test_refused_sites_and_the_end_of_a_server_are_shown(tmp_path: Path) -> None:
    page = LivePage(tmp_path / "run")
    assert page.status()["problems"] == []
    state = FederationState(
        refused={"site-2": "no column age"}, waiting="waiting for 2 clients: 1 ready, 1 refused"
    )
    write_state(server_state_file(page.folder), state)
    status = page.status()
    assert (
        status["problems"] == ["site-2 is refused: no column age"]
        and state.waiting in status["state"]
    )
    killed = LivePage(page.folder, lambda: DeploymentLines([], [], run_is_up=False))
    assert state.waiting not in killed.status()["state"]
    write_state(
        server_state_file(page.folder), FederationState(failed_checks={"site-2": "no data"})
    )
    assert (
        "could not be started" in page.status()["state"] and "error" not in page.status()["state"]
    )
    write_state(server_state_file(page.folder), replace(state, waiting="", error="too few"))
    status = page.status()
    assert status["problems"][1] == "error: too few" and "ended with an error" in status["state"]
    deployment = LivePage(
        page.folder, lambda: DeploymentLines([], [], ["site-3 is refused: no data"])
    )
    assert deployment.status()["problems"] == ["site-3 is refused: no data"]


def test_a_report_is_made_again_when_the_run_is_further_and_not_all_the_time(
    unfinished: Path,
) -> None:
    now = [0.0]
    page = LivePage(unfinished, clock=lambda: now[0])
    first = page.report()
    version = page.status()["version"]
    assert page.report() is first
    lines = (unfinished / "metrics.jsonl").read_text().splitlines(keepends=True)
    (unfinished / "metrics.jsonl").write_text(
        "".join([*lines, lines[-1].replace('"round":1', '"round":2')])
    )
    now[0] = 9.0
    assert page.report() is first and page.status()["version"] == version
    now[0] = 11.0
    assert page.status()["version"] != version and page.report() != first


def test_a_report_changes_nothing_in_the_folder(unfinished: Path) -> None:
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    LivePage(unfinished).report()
    assert {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()} == before


def test_only_requests_with_the_secret_address_are_answered(served: tuple[LiveServer, Ask]) -> None:
    server, ask = served
    own = urlsplit(server.address).path
    assert server.address.startswith("http://127.0.0.1:") and len(own) > 20
    for path in (
        "/",
        "/status.json",
        f"/{'x' * (len(own) - 2)}/status.json",
        own[:-1],
        f"{own}../{own}",
    ):
        status, text = ask(path)
        assert status == 404 and own.encode() not in text, path
    status, text = ask(f"{own}status.json")
    said = json.loads(text)
    assert (
        status == 200
        and said["parts"] == [["superlink", "up", "for 3 min"]]
        and own not in text.decode()
    )
    assert said["log"] == ["<b>site-0</b> refused"]
    assert ask(own)[1].startswith(b"<!doctype html>") and b"FedGroup" in ask(f"{own}report.html")[1]
    assert ask(f"{own}config.toml")[0] == 404
    assert ask(own, "POST")[0] == 501 and ask(own, "DELETE")[0] == 501


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    with LiveServer(LivePage(tmp_path / "later")) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        connection = HTTPConnection("127.0.0.1", server.server_address[1])
        connection.request("GET", f"{urlsplit(server.address).path}report.html")
        reply = connection.getresponse()
        assert reply.status == 503 and b"later" in reply.read()
        thread.join()


def test_a_port_in_use_and_a_folder_of_no_run(tmp_path: Path) -> None:
    with (
        LiveServer(LivePage(tmp_path)) as server,
        pytest.raises(ConfigError, match=r"in use; choose another port with --port"),
    ):
        LiveServer(LivePage(tmp_path), port=server.server_address[1])
    with pytest.raises(ConfigError, match="check --host and --port"):
        LiveServer(LivePage(tmp_path), host="192.0.2.1")
    (tmp_path / "notes.txt").write_text("mine")
    result = CliRunner().invoke(app, ["watch", str(tmp_path)])
    assert result.exit_code == 2 and "is not the folder of a run" in result.stderr


def waiting(folder: Path) -> Path:
    """A run whose other method has not begun."""
    shutil.rmtree(folder / "against")
    return folder


def test_methods_that_wait_are_in_the_table(unfinished: Path) -> None:
    status = LivePage(waiting(unfinished)).status()
    assert [row[:2] for row in status["runs"]] == [["fedgroup", "1 of 2"], ["fedavg", "waiting"]]
    assert {len(row) for row in status["runs"]} == {len(status["heads"])}
    assert status["progress"].startswith("method 1 of 2: fedgroup, round 1 of 2")


def method(name: str, round: int | None, pace: float | None, folder: Path) -> MethodProgress:
    return MethodProgress(name=name, folder=folder, round=round, rounds=10, pace=pace)


def test_the_time_left_covers_all_methods(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}")
    written = (tmp_path / "metrics.jsonl").stat().st_mtime
    methods = [
        method("ifca", 8, 100.0, tmp_path),  # ended early
        method("fedavg", 4, 2.0, tmp_path),
        method("flexcfl", None, None, tmp_path),
    ]
    # 6 rounds of 2 s, and 10 at the mean pace of 51 s.
    assert seconds_left(methods) == pytest.approx(6 * 2 + 10 * 51)
    assert progress_text(methods, written) == (
        "method 2 of 3: fedavg, round 4 of 10, about 9 min left"
    )
    assert progress_text(methods, written + 600).endswith("no new round for 10 min")
    assert progress_text(methods[:1], written) == "round 8 of 10, about 3 min left"
    assert progress_text([method("ifca", 0, None, tmp_path)], written) == "round 0 of 10"
    assert progress_text(methods[2:], written) == ""


def test_the_pace_leaves_out_the_first_round(unfinished: Path) -> None:
    lines = [json.dumps({"round": r, "total": 60.0 + 3.0 * r}) + "\n" for r in range(3)]
    (unfinished / "timings.jsonl").write_text("".join(lines))
    assert methods_of(unfinished)[0].pace == pytest.approx(3.0)
    (unfinished / "timings.jsonl").write_text(lines[0])
    assert methods_of(unfinished)[0].pace is None
    assert methods_of(unfinished / "nowhere") == []


def test_watch_without_a_folder_takes_the_newest_run(
    unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["watch"])
    assert result.exit_code == 2 and "runs has no run yet" in result.stderr
    shown = []
    monkeypatch.setattr("fedkin.cli.watch.serve", lambda page, *_: shown.append(page.folder))
    for seconds, name in ((3000, "old"), (2000, "new"), (1000, "study/cells/a")):
        shutil.copytree(unfinished, tmp_path / "runs" / name)
        for file in (tmp_path / "runs" / name).rglob("metrics.jsonl"):
            os.utime(file, (1e9 - seconds, 1e9 - seconds))
    result = CliRunner().invoke(app, ["watch"])
    assert result.exit_code == 0 and shown.pop() == Path("runs/study/cells/a")
    assert "newest run: runs/study/cells/a" in result.stdout
    # The newest round may be one of a method that is compared with the run.
    os.utime(tmp_path / "runs/new/against/fedavg/metrics.jsonl", (1e9, 1e9))
    CliRunner().invoke(app, ["watch"])
    assert shown == [Path("runs/new")]
