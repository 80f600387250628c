"""Metrics and health of a server and of a site."""

from __future__ import annotations

import json
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedkin.config.metrics_settings import MetricsSettings
from fedkin.config.server import load_client, load_server
from fedkin.core import codec
from fedkin.core.errors import ConfigError
from fedkin.server.deploy import run_server, site_metrics
from fedkin.server.deploy.check_result import CheckResult, doubtful, failed
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.init import init
from fedkin.server.deploy.server_metrics import ServerMetrics, as_check, deployment_checks
from fedkin.server.deploy.site_metrics import SiteMetrics
from fedkin.server.deploy.site_node import _refuse_page
from fedkin.server.frames import Frame, Frames
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of

FILE = """
[federation]
capacity = 6
wait_for = 2
deadline = 90.0
[samples]
shape = [6]
classes = 6
[model]
name = "mclr"
[method]
name = "ifca"
clusters = 2
[local]
epochs = 1
batch_size = 5
lr = 0.1
[run]
rounds = 2
cohort = 2
[metrics]
"""


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "run")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def serve(folder: Path, metrics: str, transport: MemoryTransport) -> Any:
    path = folder / "server.toml"
    path.write_text(FILE + metrics)
    return run_server.serve(
        load_server(path), transport, clock=transport.clock.time, sleep=transport.clock.sleep
    )


def joined(*clients: int) -> MemoryTransport:
    transport = MemoryTransport()
    for client in clients:
        transport.join(100 + client, node_of(f"s-{client}", [client], clustered_data(), model_of()))
    return transport


# --- the server


def test_a_server_writes_its_sites_and_rounds(tmp_path: Path) -> None:
    run = serve(tmp_path, 'file = "m.prom"\nsites = true', joined(0, 1))
    found = samples((tmp_path / "m.prom").read_text())
    assert found["fedkin_nodes", "online"] == 2 and found["fedkin_nodes", "refused"] == 0
    assert found["fedkin_site_online", "s-0"] == 1
    assert found["fedkin_rounds_total",] == 2
    sent = run.records[-1]["messages_by_operation"]["train"]
    assert found["fedkin_message_bytes_total", "up", "train"] == sent[1]


def test_names_of_sites_are_shown_on_request_only(tmp_path: Path) -> None:
    serve(tmp_path, 'file = "m.prom"', joined(0, 1))
    text = (tmp_path / "m.prom").read_text()
    assert "fedkin_nodes" in text and "s-0" not in text


def server_metrics(folder: Path, transport: MemoryTransport, **settings: Any) -> ServerMetrics:
    path = folder / "server.toml"
    path.write_text(FILE + "port = 0")
    config = load_server(path)
    request_round = run_server.RequestRound(
        transport, config.federation, transport.clock.time, transport.clock.sleep
    )
    worlds = run_server.RemoteWorlds(config, request_round)
    worlds.membership.wait_for_clients(1)
    return ServerMetrics(config, worlds.membership, **settings)


def test_a_server_is_ready_when_its_sites_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Any] = []

    def noted(settings: object, trackers: object, checks: Any) -> Any:
        pages.append(checks)
        return nullcontext()

    monkeypatch.setattr("fedkin.server.deploy.server_metrics.operated", noted)
    now = [1000.0]
    metrics = server_metrics(tmp_path, joined(0), clock=lambda: now[0])
    metrics.shown({"superlink": lambda: None})
    (checks,) = pages
    assert set(checks) == {"lock", "sites", "last_round", "disk", "superlink"}
    assert checks["sites"]().status == "fail"  # one of two
    assert checks["last_round"]() is None
    assert checks["lock"]().status == "fail"
    with run_server.run_lock(tmp_path / "run"):
        assert checks["lock"]().status == "pass"
        (tmp_path / ".run.owner").write_text("process 1 on another host")
        assert checks["lock"]().status == "fail"
    (tracker,) = metrics.trackers
    tracker.begin("r", {"method": {"name": "ifca"}}, None)
    tracker._clock = lambda: 1000.0
    tracker({"round": 0, "cluster_sizes": None})
    now[0] += 271
    assert checks["last_round"]().status == "fail"


def test_a_site_that_left_is_absent(tmp_path: Path) -> None:
    transport = joined(0, 1)
    metrics = server_metrics(tmp_path, transport)
    membership = metrics._membership
    assert membership.site_states() == {"s-0": "online", "s-1": "online"}
    transport.leave(101)
    membership._online = list(transport.nodes())
    membership.registry.refusals["s-2"] = "why"
    assert membership.site_states() == {"s-0": "online", "s-1": "absent", "s-2": "refused"}
    membership.removed = lambda: ["s-1"]
    assert "s-1" not in membership.site_states()


def test_a_text_file_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    run = serve(tmp_path, 'file = "file/m.prom"', joined(0, 1))
    assert run.records[-1]["round"] == 2
    assert caplog.text.count("the metrics of this server are not up to date") == 1


def test_the_text_file_is_written_only_when_sites_come_or_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = joined(0, 1)
    metrics = server_metrics(tmp_path, transport)
    written: list[int] = []
    (tracker,) = metrics.trackers
    monkeypatch.setattr(tracker, "write", lambda: written.append(1))
    metrics.write()
    metrics.write()
    assert len(written) == 1
    transport.leave(101)
    metrics._membership._online = list(transport.nodes())
    metrics.write()
    assert len(written) == 2


def test_the_checks_of_a_deployment_are_those_of_deploy_check(tmp_path: Path) -> None:
    assert deployment_checks(tmp_path) == {}
    init(tmp_path / "fed", 1, port=1, secure=True)
    checks = deployment_checks(tmp_path / "fed")
    certificate = checks["certificate"]()
    assert certificate is not None and certificate.status == "pass"
    superlink = checks["superlink"]()
    assert superlink is not None and superlink.status == "fail"  # nothing runs on port 1


@pytest.mark.parametrize(
    ("result", "status"),
    [(CheckResult("a", "b"), "pass"), (doubtful("a", "b"), "warn"), (failed("a", "b"), "fail")],
)
def test_marks_become_statuses(result: CheckResult, status: str) -> None:
    assert as_check(result) == (status, "b")


# --- a site


def message(task: str, size: int = 0) -> Frames:
    arrays = {"x": Frame("uint8", (size,), b"0" * size)} if size else {}
    return Frames(codec.encode({"operation": task}, {}), arrays)


def test_a_site_counts_what_it_sends_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        metrics = SiteMetrics(
            MetricsSettings(file=str(tmp_path / "metrics.prom")), tmp_path, clock=lambda: 1234.5
        )
        reply = metrics.counted(lambda request: Frames(b"abc"))(message("train", 10))
        assert reply == Frames(b"abc")
    metrics.count("evaluate", 5)
    found = samples((tmp_path / "metrics.prom").read_text())
    assert found["fedkin_site_egress_bytes_total", "train"] == 6
    assert found["fedkin_site_egress_bytes_total", "evaluate"] == 5
    assert found["fedkin_site_last_contact_timestamp_seconds",] == 1234.5


def test_a_server_cannot_fill_the_page_with_tasks(tmp_path: Path) -> None:
    metrics = SiteMetrics(MetricsSettings(file=str(tmp_path / "m")), tmp_path)
    for task in (
        "UPPER",
        "a" * 41,
        *(f"task_{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(80)),
    ):
        metrics.count(task, 1)
    egress = json.loads((tmp_path / site_metrics.COUNTS).read_text())["egress"]
    assert len(egress) <= site_metrics._MOST_TASKS + 1 and egress["other"] >= 2
    assert sum(egress.values()) == 82


def test_damaged_counts_begin_again(tmp_path: Path) -> None:
    (tmp_path / site_metrics.COUNTS).write_text('{"egress": []}')
    SiteMetrics(MetricsSettings(port=0), tmp_path).count("train", 7)
    assert json.loads((tmp_path / site_metrics.COUNTS).read_text())["egress"] == {"train": 7}


def test_a_site_without_the_section_counts_nothing(tmp_path: Path) -> None:
    metrics = SiteMetrics(None, tmp_path)
    answer = lambda request: request  # noqa: E731
    assert metrics.counted(answer) is answer
    with metrics.shown(Address(secure=False)):
        assert not list(tmp_path.iterdir())


def test_a_site_that_cannot_write_still_answers(tmp_path: Path, caplog: Any) -> None:
    folder = tmp_path / "file"
    folder.touch()
    metrics = SiteMetrics(MetricsSettings(file=str(tmp_path / "m")), folder)
    assert metrics.counted(lambda request: Frames(b"abc"))(message("train")) == Frames(b"abc")
    assert "not up to date" in caplog.text


def test_the_page_of_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []
    monkeypatch.setattr("fedkin.tracking.operated._log.info", lambda text, url: urls.append(url))
    metrics = SiteMetrics(MetricsSettings(port=0), tmp_path)
    metrics.count("train", 3)
    with metrics.shown(Address(port=1, secure=False)):
        with urllib.request.urlopen(f"{urls[0]}/metrics") as answer:
            assert b'fedkin_site_egress_bytes_total{task="train"} 3.0' in answer.read()
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"{urls[0]}/readyz")
        found = json.loads(refused.value.read())
        assert refused.value.code == 503 and found["checks"]["superlink"][0]["status"] == "fail"


def test_a_supernode_has_no_page(tmp_path: Path) -> None:
    init(tmp_path / "fed", 1, port=1, secure=False)
    path = tmp_path / "fed/site-0/client.toml"
    empty = path.read_text()
    assert load_client(path).metrics is None
    path.write_text(f'{empty}\n[metrics]\nfile = "m.prom"\n')
    config = load_client(path)
    assert config.metrics is not None and config.metrics.file == str(path.parent / "m.prom")
    _refuse_page(config)
    path.write_text(f"{path.read_text()}port = 1\n")
    with pytest.raises(ConfigError, match=r"metrics\.port"):
        _refuse_page(load_client(path))
