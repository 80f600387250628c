"""The app of a site that runs Flower's SuperNode: a reply is sent even if it cannot be counted."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict

from fedkin.core.errors import MissingExtra
from fedkin.server.deploy import client_app
from fedkin.server.deploy.site_metrics import COUNTS
from fedkin.server.deploy.worker_link import read_sections, site_name
from fedkin.server.flower_transport import from_record, to_record
from fedkin.server.message import RpcMessage

REQUEST = RpcMessage({"operation": "hello"})


def said(
    folder: Path,
    sections: str,
    monkeypatch: pytest.MonkeyPatch,
    content: RecordDict | None = None,
) -> RpcMessage:
    """The reply of a site whose client.toml has these sections."""
    path = folder / "client.toml"
    path.write_text(f'{sections}\n[client]\nworker = "none"\n')

    def reply(message: Message, context: Context, config: Path | None) -> Message:
        return Message(to_record(RpcMessage({"name": "berlin"}))[0], reply_to=message)

    monkeypatch.setattr(client_app, "_reply_of_node", reply)
    message = Message(
        metadata=Metadata(1, "m1", 1, 7, "", "3", time.time(), 60.0, "query"),
        content=to_record(REQUEST)[0] if content is None else content,
    )  # type: ignore[call-overload]
    context = Context(
        run_id=1, node_id=7, node_config={"config": str(path)}, state=RecordDict(), run_config={}
    )
    return from_record(client_app.handle(message, context).content)[0]


def test_a_reply_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said(tmp_path, '[metrics]\nfile = "m.prom"\n', monkeypatch)
    assert json.loads((tmp_path / COUNTS).read_text())["egress"]["hello"] > 0
    assert "fedkin_site_egress_bytes_total" in (tmp_path / "m.prom").read_text()


@pytest.mark.parametrize("sections", ["", "[samples]\nshape = 3\n"])
def test_a_site_without_the_section_counts_nothing(
    sections: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(tmp_path, sections, monkeypatch).header == {"name": "berlin"}
    assert not (tmp_path / COUNTS).exists()


@pytest.mark.parametrize("section", ["metrics = 3\n", "[metrics]\nprot = 3\n"])
def test_a_broken_section_does_not_lose_the_reply(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(tmp_path, section, monkeypatch).header == {"name": "berlin"}
    assert "not up to date" in caplog.text and "client.toml: metrics" in caplog.text


def test_a_missing_library_does_not_lose_the_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*arguments: object) -> None:
        raise MissingExtra("tracking needs prometheus_client")

    monkeypatch.setattr("fedkin.server.deploy.site_metrics.tracker_of", missing)
    reply = said(tmp_path, '[metrics]\nfile = "m.prom"\n', monkeypatch)
    assert reply.header == {"name": "berlin"} and "prometheus_client" in caplog.text


def test_the_reply_to_an_invalid_message_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    invalid = RecordDict({"rest": ConfigRecord({"message": 3})})
    reply = said(tmp_path, '[metrics]\nfile = "m.prom"\n', monkeypatch, invalid)
    assert reply.header == {"name": "berlin"} and "must be bytes" in caplog.text


def test_a_file_that_cannot_be_read_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(tmp_path, "[metrics", monkeypatch).header == {"name": "berlin"}
    assert not (tmp_path / COUNTS).exists()


@pytest.mark.parametrize("extra", [b"\xef\xbb\xbf", b"# M\xfcnchen\n"])
def test_a_file_with_a_mark_or_another_encoding_is_read(
    extra: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "client.toml"
    path.write_bytes(extra + b'[client]\nname = "berlin"\nworker = "none"\n')
    sections = read_sections(path)
    assert sections is not None and sections["client"]["worker"] == "none"
    assert site_name(path) == "berlin"


@pytest.mark.parametrize("answers", [True, False])
def test_a_node_replies_if_the_worker_does_not(
    answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(message: Message, config: Path) -> Message | None:
        content = to_record(RpcMessage({"name": "worker"}))[0]
        return Message(content, reply_to=message) if answers else None

    monkeypatch.setattr(client_app, "_wants_worker", lambda sections: True)
    monkeypatch.setattr(client_app, "_reply_of_worker", reply)
    name = "worker" if answers else "berlin"
    assert said(tmp_path, "", monkeypatch).header == {"name": name}
