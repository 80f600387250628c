"""The line of each message, before the message leaves."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin import __version__
from fedkin.core import storage
from fedkin.core.errors import ConfigError, StorageError
from fedkin.security.line_chain import line_digest, read_chain
from fedkin.server.disclosure import REFUSED_BY
from fedkin.server.egress_outbox import BLANK, EGRESS, message_digest
from fedkin.server.message import RpcMessage, from_parts
from fedkin.server.node import respond_recorded
from tests.server.egress_sites import floors_of, outbox_of
from tests.server.small_federations import ABOUT, fake_node

HELLO = RpcMessage({"operation": "hello", "round": 0, **ABOUT.header()})
TRAIN = RpcMessage({"operation": "train", "run": "north-1", "round": 3})
REPLY = RpcMessage(
    {}, {"update": np.ones((1, 100), np.float32), "examples": np.array([7])}, {"subjects": 7}
)


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "egress.jsonl").read_bytes().splitlines()]


def test_a_line_says_all_and_holds_no_value(tmp_path: Path) -> None:
    outbox = outbox_of(tmp_path, floors={"subjects": 5})
    sent, parts = outbox.seal(TRAIN, REPLY)
    (line,) = entries(tmp_path)
    assert line.pop("time")[:2] == "20"
    assert line == {
        "seq": 0,
        "prev": "0" * 64,
        "kind": "reply",
        "site": "site-0",
        "to": "fed.example.org:8000",
        "certificate": "ab" * 32,
        "federation": "trial",
        "run": "north-1",
        "round": 3,
        "operation": "train",
        "schema": f"train/{__version__}",
        "arrays": [["examples", "int64", [1]], ["update", "float32", [1, 100]]],
        "bytes": parts.size,
        "sha256": line["sha256"],
        "subjects": 7,
        "purpose": "",
        "refused_by": "",
        "floors": {"subjects": 5},
    }
    assert from_parts(parts).header == sent.header
    assert sent.header[EGRESS]["seq"] == 0 and sent.header[EGRESS]["site"] == "site-0"


@pytest.mark.parametrize("whole", [0, 2**22])
def test_the_head_in_the_reply_is_the_digest_of_the_line(tmp_path: Path, whole: int) -> None:
    outbox = outbox_of(tmp_path)
    heads = []
    for _ in range(3):
        sent, parts = outbox.seal(TRAIN, REPLY, whole)
        heads.append(sent.header[EGRESS]["head"])
        assert (len(parts.arrays) > 0) == (whole == 0)
        # The digest is of the message as it is sent, with a blank in the place of the head.
        blank = parts.rest.replace(heads[-1].encode(), BLANK.encode())
        data = b"".join(frame.data for _, frame in sorted(parts.arrays.items()))
        assert entries(tmp_path)[-1]["sha256"] == hashlib.sha256(blank + data).hexdigest()
        assert message_digest(parts, heads[-1]) == entries(tmp_path)[-1]["sha256"]
        assert entries(tmp_path)[-1]["bytes"] == parts.size == len(parts.rest) + len(data)
    lines = (tmp_path / "egress.jsonl").read_bytes().splitlines()
    assert heads == [line_digest(line) for line in lines]
    assert read_chain(lines).head == heads[-1]


def test_a_text_like_a_blank_changes_no_other_place(tmp_path: Path) -> None:
    outbox = outbox_of(tmp_path)
    sent, parts = outbox.seal(TRAIN, RpcMessage({"failed": BLANK, "name": BLANK}))
    assert from_parts(parts).header == sent.header
    assert sent.header["failed"] == BLANK
    assert message_digest(parts, sent.header[EGRESS]["head"]) == entries(tmp_path)[0]["sha256"]


def test_handshakes_and_refusals_have_lines(tmp_path: Path) -> None:
    outbox = outbox_of(tmp_path)
    respond_recorded(lambda: fake_node("site-0"), lambda: HELLO, outbox)
    refused = RpcMessage({**HELLO.header, "version": "0.0"})
    respond_recorded(lambda: fake_node("site-0"), lambda: refused, outbox)

    def broken() -> Any:
        raise ConfigError("client.toml cannot be read")

    respond_recorded(broken, lambda: TRAIN, outbox)

    def unread() -> RpcMessage:
        raise ConfigError("the message cannot be read")

    respond_recorded(broken, unread, outbox)
    kinds = [(line["kind"], line["operation"], line["run"]) for line in entries(tmp_path)]
    assert kinds == [
        ("handshake", "hello", ""),
        ("refusal", "hello", ""),
        ("refusal", "train", "north-1"),
        ("refusal", "", ""),
    ]
    assert [line["subjects"] for line in entries(tmp_path)] == [10, 0, 0, 0]
    assert entries(tmp_path)[0]["purpose"] == "Handshake"
    assert entries(tmp_path)[3]["round"] == -1


@pytest.mark.parametrize(("count", "subjects"), [(None, 8), ("samples", 8), ("clients", 1)])
def test_a_handshake_has_the_fewest_subjects_of_a_client(
    count: str | None, subjects: int, tmp_path: Path
) -> None:
    samples = np.array([12, 40, 8])
    floors = None if count is None else floors_of(samples, count=count, subjects=1)
    node = replace(fake_node("site-0"), samples=samples, floors=floors)
    respond_recorded(lambda: node, lambda: HELLO, outbox_of(tmp_path))
    assert [line["subjects"] for line in entries(tmp_path)] == [subjects]


def test_a_reply_above_the_bytes_of_a_round_becomes_a_refusal(tmp_path: Path) -> None:
    size = outbox_of(tmp_path / "other").seal(TRAIN, REPLY)[1].size
    outbox = outbox_of(tmp_path, bytes_per_round=2 * size)
    assert [outbox.seal(TRAIN, REPLY)[0].refusal for _ in range(2)] == ["", ""]
    sent, parts = outbox.seal(TRAIN, REPLY)
    assert sent.refusal == (
        f"disclosure.bytes_per_round: {2 * size:,} bytes have left this site in this round, and "
        f"the reply has {size:,}, but at most {2 * size:,} may leave"
    )
    line = entries(tmp_path)[-1]
    assert (line["kind"], line[REFUSED_BY], line["bytes"]) == (
        "refusal",
        "bytes_per_round",
        parts.size,
    )
    assert line["arrays"] == []
    # A refusal always fits, and the next round begins at zero.
    assert outbox.seal(TRAIN, RpcMessage({"failed": "no"}))[0].refusal == "no"
    later = RpcMessage({**TRAIN.header, "round": 4})
    assert outbox.seal(later, REPLY)[0].refusal == ""


def test_a_line_that_was_cut_off_is_told(tmp_path: Path) -> None:
    outbox = outbox_of(tmp_path)
    outbox.seal(TRAIN, REPLY)
    with (tmp_path / "egress.jsonl").open("ab") as file:
        file.write(b'{"arrays"')
    outbox.seal(TRAIN, REPLY)
    lines = entries(tmp_path)
    assert [line["kind"] for line in lines] == ["reply", "repair", "reply"]
    assert lines[1]["torn"] == 9 and lines[1]["bytes"] == 0
    assert read_chain((tmp_path / "egress.jsonl").read_bytes().splitlines()).broken is None


def test_an_unexpected_error_has_a_line_too(tmp_path: Path) -> None:
    outbox = outbox_of(tmp_path)

    def broken() -> Any:
        raise RuntimeError("of the user's program")

    with pytest.raises(RuntimeError):
        respond_recorded(broken, lambda: TRAIN, outbox)
    (line,) = entries(tmp_path)
    text = b"RuntimeError: of the user's program"
    assert (line["kind"], line["operation"], line["bytes"]) == ("error", "train", len(text))
    assert line["sha256"] == hashlib.sha256(text).hexdigest()

    def unread() -> RpcMessage:
        raise RuntimeError("x")

    with pytest.raises(RuntimeError):
        respond_recorded(broken, unread, outbox)
    assert entries(tmp_path)[1]["operation"] == ""


def test_nothing_leaves_without_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(storage.FileSystem):
        def open(self, path: Path, mode: str) -> Any:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "file_system", Full())
    with pytest.raises(StorageError, match="No space left"):
        outbox_of(tmp_path).seal(TRAIN, REPLY)
