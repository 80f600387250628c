"""A server's record of all replies that reached it: one line for each, with the head of the site's
ledger that the reply names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.core.errors import StorageError
from fedkin.core.storage import append_line, complete_lines, drop_torn_line, storage_errors
from fedkin.core.strict_json import json_text
from fedkin.server.egress_ledger import time_text
from fedkin.server.egress_outbox import EGRESS, message_digest
from fedkin.server.frames import Frames
from fedkin.server.message import RpcMessage, one_line
from fedkin.server.transport import NodeReply, OnlineNode, SentRequest, Transport

ROUND = "round"  # header entry of a request: the round, for the sites' ledgers
_UNKNOWN = "unknown"  # operation of a reply that was delivered again later
_HEAD_LENGTH = 64


class _Sent(NamedTuple):
    """A request whose reply has not come yet."""

    node: int
    operation: str
    run: str
    round: int


class Receipt(NamedTuple):
    """A reply that reached the server.

    Attributes:
        site: name of the site: the name under which it is registered, or else the name that it
            gives itself.
        run: the run; empty for a handshake.
        round: the round of the request.
        operation: the task, or ``hello`` for a handshake.
        bytes: size of the message, as the transport counted it.
        sha256: digest of the message with a blank in the place of the head.
        seq: number of the message's line in the site's ledger; -1 if the message names no line.
        head: digest of this line; empty if the message names no line.
    """

    site: str
    run: str
    round: int
    operation: str
    bytes: int
    sha256: str
    seq: int
    head: str


def receipts_file(run_folder: Path) -> Path:
    """The file of a server's receipts: ``.NAME.received.jsonl`` next to the run folder NAME."""
    return run_folder.with_name(f".{run_folder.name}.received.jsonl")


def read_receipts(path: Path) -> list[Receipt]:
    """The receipts in a file. Raises StorageError if it cannot be read, or a line is damaged."""
    receipts = []
    for number, line in enumerate(complete_lines(path)):
        try:
            values = json.loads(line)
            receipts.append(Receipt(*(values[name] for name in Receipt._fields)))
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{path}: line {number + 1} is damaged; restore the file from a copy"
            ) from error
    return receipts


class RecordingTransport:
    """A transport that records every reply that it delivers, and tells nodes the round.

    Args:
        transport: carries the messages.
        path: the file of receipts.
    """

    def __init__(self, transport: Transport, path: Path) -> None:
        self._transport = transport
        self._path = path
        self._names: dict[int, str] = {}
        self._sent: dict[str, _Sent] = {}
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        drop_torn_line(path)

    def nodes(self) -> Sequence[OnlineNode]:
        """The nodes that are online."""
        nodes = self._transport.nodes()
        self._names |= {node.node_id: node.name for node in nodes}
        return nodes

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        """Send each request to its node, with the round in its header."""
        with_round = [
            (node, RpcMessage({**request.header, ROUND: round}, request.arrays))
            for node, request in requests
        ]
        messages = self._transport.push(with_round, round, lifetime)
        for sent, (node, request) in zip(messages, requests, strict=True):
            if sent.request_id is not None:
                header = request.header
                self._sent[sent.request_id] = _Sent(
                    node=node,
                    operation=str(header["operation"]),
                    run=str(header.get("run", "")),
                    round=round,
                )
        return messages

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        """The replies to these requests that have arrived. Their receipts are written first.

        Raises StorageError if a receipt cannot be written.
        """
        replies = self._transport.pull(request_ids)
        for reply in replies:
            if reply.size:
                append_line(self._path, json_text(self._receipt(reply)))
        for reply in replies:
            self._sent.pop(reply.request_id, None)
        return replies

    def _receipt(self, reply: NodeReply) -> dict[str, Any]:
        """The line of a reply."""
        header = {} if reply.message is None else reply.message.header
        egress = header.get(EGRESS)
        if not isinstance(egress, Mapping):
            egress = {}
        sent = self._sent.get(reply.request_id, _Sent(-1, _UNKNOWN, "", -1))
        seq = egress.get("seq")
        receipt = Receipt(
            site=self._names.get(sent.node) or one_line(egress.get("site", ""), 64),
            run=sent.run,
            round=sent.round,
            operation=sent.operation,
            bytes=reply.size,
            sha256=reply.digest,
            seq=seq if type(seq) is int else -1,
            head=_head_in(egress),
        )
        return {"time": time_text(), "node": sent.node, **receipt._asdict()}


def digest_of_reply(message: RpcMessage, parts: Frames) -> str:
    """Digest of a reply as its site's ledger has it; empty if the reply names no line.

    Args:
        message: the reply.
        parts: its bytes.
    """
    egress = message.header.get(EGRESS)
    head = _head_in(egress) if isinstance(egress, Mapping) else ""
    return message_digest(parts, head) if head else ""


def _head_in(egress: Mapping[str, Any]) -> str:
    """The head that a reply names; empty for anything else."""
    head = egress.get("head")
    return head if isinstance(head, str) and len(head) == _HEAD_LENGTH else ""
