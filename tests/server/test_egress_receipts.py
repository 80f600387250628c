"""The server's record of the replies that reached it, and its comparison with sites' ledgers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError, StorageError
from fedkin.methods.fedavg import FedAvg
from fedkin.run.loop import run
from fedkin.security.line_chain import line_digest, line_text
from fedkin.server.egress_check import check_against, check_lines
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import EGRESS
from fedkin.server.egress_receipts import (
    Receipt,
    RecordingTransport,
    digest_of_reply,
    read_receipts,
    receipts_file,
)
from fedkin.server.frames import Frames
from fedkin.server.message import RpcMessage, encode
from fedkin.server.remote_world import RemoteWorld
from fedkin.server.transport import NodeReply, Transport
from tests.server.egress_sites import outbox_of, recorded
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import fake_node, fake_remote

SITES = 4


class Repeating(MemoryTransport):
    """An engine that delivers each reply of an operation twice."""

    repeated = "train"

    def pull(self, request_ids: Any) -> list[NodeReply]:
        replies = list(super().pull(request_ids))
        again = [reply for reply in replies if self._operations[reply.request_id] == self.repeated]
        return [*replies, *again]


def federation(folder: Path, engine: MemoryTransport | None = None) -> RemoteWorld:
    """A run of four sites with ledgers, whose server keeps receipts."""
    transport = engine or MemoryTransport()
    for number in range(SITES):
        name = f"site-{number}"
        outbox = outbox_of(folder / name, name)
        node = fake_node(name, [number])
        transport.join(number + 10, recorded(lambda node=node: node, outbox))
    recording = RecordingTransport(transport, folder / "received.jsonl")
    assert isinstance(recording, Transport)
    world = fake_remote(transport, capacity=SITES, wait_for=SITES)
    world.membership.request_round.transport = recording
    run(world, FedAvg(), Plan(3, SITES))
    return world


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RemoteWorld]:
    folder = tmp_path_factory.mktemp("federation")
    return folder, federation(folder)


def parts(folder: Path, site: str = "site-0") -> tuple[list[bytes], list[Receipt]]:
    """The lines of a site's ledger, and all receipts."""
    return SiteLedger(folder / site).lines(), read_receipts(folder / "received.jsonl")


def test_every_byte_that_the_server_counted_is_explained(
    finished: tuple[Path, RemoteWorld],
) -> None:
    folder, world = finished
    explained = 0
    for number in range(SITES):
        lines, receipts = parts(folder, f"site-{number}")
        check = check_against(lines, receipts, "run")
        assert check.is_sound and check.notes == () and check.undelivered == ()
        assert check.received == check.lines == len(lines)
        assert check.explained_bytes == check.received_bytes == sum(check.bytes_by_kind.values())
        explained += check.explained_bytes
    assert explained == sum(world.ledger.measured_up.values()) > 0
    # A line is about 600 bytes, and says the round.
    rounds = [json.loads(line)["round"] for line in parts(folder)[0]]
    assert rounds == sorted(rounds) and set(rounds) == {0, 1, 2, 3}


def test_a_reply_that_was_delivered_twice_is_explained_twice(tmp_path: Path) -> None:
    world = federation(tmp_path, Repeating())
    checks = [check_against(*parts(tmp_path, f"site-{i}"), "run") for i in range(SITES)]
    assert all(check.is_sound for check in checks)
    assert "more than once" in checks[0].notes[0]
    assert sum(check.explained_bytes for check in checks) == sum(world.ledger.measured_up.values())


def test_receipts_name_site_run_and_round(finished: tuple[Path, RemoteWorld]) -> None:
    _, receipts = parts(finished[0])
    first = receipts[0]
    assert (first.operation, first.run, first.round, first.seq) == ("hello", "", 0, 0)
    trained = [receipt for receipt in receipts if receipt.operation == "train"]
    assert {receipt.site for receipt in trained} == {f"site-{i}" for i in range(SITES)}
    assert {receipt.run for receipt in trained} == {"trial-run"}
    assert {receipt.round for receipt in trained} == {1, 2, 3}


def test_a_registered_name_counts_more_than_a_given_one(tmp_path: Path) -> None:
    transport = MemoryTransport()
    outbox = outbox_of(tmp_path / "site", "berlin")
    transport.join(1, recorded(lambda: fake_node("berlin"), outbox), name="hamburg")
    recording = RecordingTransport(transport, tmp_path / "received.jsonl")
    recording.nodes()
    sent = recording.push([(1, RpcMessage({"operation": "train"}))], 2, 9.0)
    recording.pull([str(sent[0].request_id)])
    assert read_receipts(tmp_path / "received.jsonl")[0].site == "hamburg"


class Replies(MemoryTransport):
    """An engine that delivers given replies, whatever was asked."""

    def __init__(self, *replies: NodeReply) -> None:
        super().__init__()
        self.replies = replies

    def pull(self, request_ids: Any) -> tuple[NodeReply, ...]:
        return self.replies


@pytest.mark.parametrize(
    "egress", [None, 3, {}, {"head": 7, "seq": "1"}, {"head": "short", "seq": True, "site": 5}]
)
def test_replies_that_name_no_line_are_received_too(tmp_path: Path, egress: object) -> None:
    reply = RpcMessage({EGRESS: egress} if egress is not None else {})
    assert digest_of_reply(reply, Frames(encode(reply))) == ""
    engine = Replies(
        NodeReply("late", reply, 12), NodeReply("error", None, 9), NodeReply("gone", None)
    )
    RecordingTransport(engine, tmp_path / "received.jsonl").pull(["late"])
    first, second = read_receipts(tmp_path / "received.jsonl")
    assert first[1:5] == ("", -1, "unknown", 12) and first[6:] == (-1, "")
    assert second.bytes == 9
    with pytest.raises(ConfigError, match="has received nothing from 'site-0'"):
        check_against([line(0)], [first], "run")


def test_a_request_that_was_not_accepted_has_no_receipt(tmp_path: Path) -> None:
    transport = MemoryTransport()
    transport.join(1, lambda request: RpcMessage(), rejected=True)
    recording = RecordingTransport(transport, tmp_path / "received.jsonl")
    sent = recording.push([(1, RpcMessage({"operation": "train"}))], 1, 9.0)
    assert sent[0].request_id is None and recording.pull([]) == []


def test_the_file_of_receipts(tmp_path: Path) -> None:
    path = receipts_file(tmp_path / "fed" / "run")
    assert path == tmp_path / "fed" / ".run.received.jsonl"
    assert read_receipts(path) == []
    RecordingTransport(MemoryTransport(), path)
    path.write_text('{"bytes": 1')
    RecordingTransport(MemoryTransport(), path)  # the line of a killed server is removed
    assert path.read_text() == ""
    for damaged in ("{}", "[]", "x"):
        path.write_text(f"{damaged}\n")
        with pytest.raises(StorageError, match="line 1 is damaged"):
            read_receipts(path)


# --- differences between a ledger and receipts


def line(seq: int, prev: str = "0" * 64, **entries: Any) -> bytes:
    """A line of a ledger."""
    default = {"seq": seq, "prev": prev, "site": "site-0", "run": "north", "kind": "reply"}
    return line_text({**default, "bytes": 100 + seq, "sha256": "ab", **entries}).encode()


def ledger(count: int, **entries: Any) -> list[bytes]:
    lines: list[bytes] = []
    for seq in range(count):
        lines.append(line(seq, line_digest(lines[-1]) if lines else "0" * 64, **entries))
    return lines


def receipts_of(lines: list[bytes]) -> list[Receipt]:
    """The receipts of messages that all arrived."""
    return [
        Receipt("site-0", "north", 1, "train", 100 + seq, "ab", seq, line_digest(text))
        for seq, text in enumerate(lines)
    ]


LINES = ledger(6)
RECEIPTS = receipts_of(LINES)


def faults(lines: list[bytes], receipts: list[Receipt] = RECEIPTS) -> tuple[str, ...]:
    return check_against(lines, receipts, "run").faults


def again(lines: list[bytes]) -> list[bytes]:
    """The lines with right numbers and digests, as by a site that writes its whole ledger again."""
    written: list[bytes] = []
    for seq, text in enumerate(lines):
        prev = line_digest(written[-1]) if written else "0" * 64
        written.append(line_text({**json.loads(text), "seq": seq, "prev": prev}).encode())
    return written


def test_a_cut_tail_is_found() -> None:
    assert faults(LINES) == ()
    assert check_lines(LINES[:4])[0].is_sound
    assert faults(LINES[:4]) == tuple(
        f"the server has received the message of line {seq}, which is missing or comes after the "
        f"first fault (train of round 1, {100 + seq} bytes)"
        for seq in (4, 5)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:-1], lines[-1].replace(b"105", b"106")],
    ],
    ids=["removed", "added", "moved", "changed"],
)
def test_a_ledger_that_was_written_again_is_found(
    change: Callable[[list[bytes]], list[bytes]],
) -> None:
    lines = again(change(LINES))
    assert check_lines(lines)[0].is_sound
    assert "is not the line that was sent to the server" in faults(lines)[0]


def test_a_message_with_other_bytes_is_found() -> None:
    other = [replace_one(2, sha256="cd"), replace_one(2, bytes=7)]
    for receipts in other:
        assert "the message of line 2 arrived with other bytes" in faults(LINES, receipts)[0]
    assert "names no line" in faults(LINES, replace_one(2, seq=-1))[0]


def replace_one(position: int, **changes: Any) -> list[Receipt]:
    """The receipts, of which one has other values."""
    receipts = [*RECEIPTS]
    receipts[position] = receipts[position]._replace(**changes)
    return receipts


def test_a_site_killed_between_line_and_message_is_told() -> None:
    check = check_against(LINES, RECEIPTS[:-1], "run")
    assert check.is_sound and check.undelivered == (5,)
    assert check.notes == (
        "line 5 was written, but the server has not received its message (None, 105 bytes)",
    )
    # Killed while it wrote: the line is not complete.
    torn = check_against(LINES, RECEIPTS, "run", torn=33)
    assert "the last line is not complete (33 bytes)" in torn.notes[0]


def test_many_notes_and_faults_are_shortened() -> None:
    lines = ledger(30)
    check = check_against(lines, receipts_of(lines)[:1], "run")
    assert len(check.undelivered) == 29 and len(check.notes) == 11
    assert check.notes[-1] == "19 further lines whose messages the server has not received"
    found = faults(lines[:1], receipts_of(lines))
    assert len(found) == 11 and found[-1] == "19 further replies that no line explains"


def test_lines_of_other_runs_and_other_kinds_need_no_receipt() -> None:
    lines = again(
        [
            line(0, run="before"),
            line(1, run="", kind="handshake"),
            *LINES[:2],
            line(4, run="", kind="handshake"),
            line(5, kind="error"),
            line(6),
            line(7, run="", kind="handshake"),
            line(8, run="later"),
        ]
    )
    receipts = [
        Receipt("site-0", "north", 1, "train", size, "ab", seq, line_digest(lines[seq]))
        for seq, size in ((2, 100), (3, 101), (6, 106))
    ]
    check = check_against(lines, receipts, "run")
    # The handshake between two messages of the run has no receipt; those outside are of others.
    assert check.faults == () and check.undelivered == (4,)
    assert check.bytes_by_kind == {"reply": 100 + 100 + 101 + 106 + 108, "error": 105,
                                   "handshake": 101 + 104 + 107}  # fmt: skip


def test_lines_of_another_run_between_those_of_a_run_need_no_receipt() -> None:
    lines = again([LINES[0], line(1, run="south"), line(2)])
    receipts = [
        Receipt("site-0", "north", 1, "train", size, "ab", seq, line_digest(lines[seq]))
        for seq, size in ((0, 100), (2, 102))
    ]
    check = check_against(lines, receipts, "run")
    assert check.is_sound and check.undelivered == () and check.notes == ()


def test_a_message_without_a_line_does_not_move_the_first_receipt() -> None:
    lines = again([line(0, run="", kind="handshake"), line(1), line(2)])
    receipts = [
        Receipt("site-0", "north", 1, "train", 9, "", -1, ""),
        *(
            Receipt("site-0", "north", 1, "train", 100 + seq, "ab", seq, line_digest(lines[seq]))
            for seq in (1, 2)
        ),
    ]
    check = check_against(lines, receipts, "run")
    assert len(check.faults) == 1 and "names no line" in check.faults[0]
    assert check.undelivered == ()
    # All receipts name no line.
    assert check_against(lines, receipts[:1], "run").undelivered == (0, 1, 2)


def test_lines_after_the_last_receipt_are_named() -> None:
    lines = again([*LINES, line(6, kind="error"), line(7, kind="error")])
    check = check_against(lines, receipts_of(LINES), "run")
    assert check.is_sound and check.undelivered == ()
    assert check.notes == (
        "lines after the last receipt are not covered by the server's receipts: 6, 7 (2 in all)",
    )


def test_only_handshakes_so_far() -> None:
    lines = ledger(2, run="", kind="handshake")
    receipt = Receipt("site-0", "", 0, "hello", 100, "ab", 0, line_digest(lines[0]))
    check = check_against(lines, [receipt], "run")
    assert check.is_sound and check.undelivered == (1,)


def test_a_ledger_of_another_run_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="the ledger is of another run: it has messages of north"):
        check_against(LINES, [RECEIPTS[0]._replace(run="south")], "fed/run")
    with pytest.raises(ConfigError, match="fed/run has received nothing from 'site-0', but from "):
        check_against(LINES, [RECEIPTS[0]._replace(site="site-9")], "fed/run")
    with pytest.raises(ConfigError, match="has received nothing from '', but from no site"):
        check_against([], [], "fed/run")


def test_damaged_lines_are_named() -> None:
    check, chain = check_lines([*LINES[:2], b"garbage", *LINES[2:]])
    assert check.faults == ("line 2 is damaged: it is no line that fedkin wrote",)
    assert (check.lines, len(chain.lines), check.site) == (7, 2, "site-0")
    without = again([LINES[0], line(1, bytes="many")])
    check, _ = check_lines(without)
    assert check.faults == ("line 1 is damaged: it has no number of bytes",)
    assert check.bytes_by_kind == {"reply": 100}
    assert check_lines([])[0] == replace(check, site="", lines=0, head="0" * 64, bytes_by_kind={},
                                         faults=())  # fmt: skip
