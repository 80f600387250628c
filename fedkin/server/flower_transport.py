"""Flower as the ``Transport``: the only module of fedkin's library that sends with ``flwr``.

Replies are matched by request id, never by the node that Flower names as the sender.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedkin.server.egress_outbox import Outbox
from fedkin.server.egress_receipts import digest_of_reply
from fedkin.server.flower_record import parts_to_record, record_to_parts
from fedkin.server.frames import Frames
from fedkin.server.message import (
    IN_REPLY,
    IN_REQUEST,
    InvalidMessageError,
    RpcMessage,
    from_parts,
    one_line,
    to_parts,
)
from fedkin.server.node import Node, respond, respond_recorded
from fedkin.server.reply_fetches import ReplyFetches
from fedkin.server.transport import NodeReply, OnlineNode, SentRequest

# Flower's message type of an operation; every other operation is a query.
_MESSAGE_TYPES = {"train": "train", "evaluate": "evaluate"}
# Error codes of lost messages: message unavailable, reply expired, node unavailable, process
# crashed.
_LOST = {3, 4, 5, 8}
_REASONS = {
    3: "the message was lost",
    4: "the reply came too late",
    5: "the node is gone",
    8: "the node's process crashed",
}


def to_record(message: RpcMessage, whole: int = IN_REQUEST) -> tuple[RecordDict, int]:
    """A message as a Flower record, and its size in bytes.

    Float arrays of more than ``whole`` bytes become separate objects.
    """
    parts = to_parts(message, whole)
    return parts_to_record(parts), parts.size


def from_record(record: RecordDict) -> tuple[RpcMessage, int]:
    """A message from a Flower record, and its size in bytes.

    Raises InvalidMessageError for any other record.
    """
    parts = _parts_of(record)
    return from_parts(parts), parts.size


def _parts_of(record: RecordDict) -> Frames:
    """The bytes of the message in a Flower record. Raises InvalidMessageError for any other
    record."""
    try:
        return record_to_parts(record)
    except ValueError as error:
        raise InvalidMessageError(str(error)) from error


def _size(record: RecordDict) -> int:
    """Size in bytes of the message in a Flower record, even if the message cannot be decoded."""
    values = [value for rest in record.config_records.values() for value in rest.values()]
    arrays = [array.data for part in record.array_records.values() for array in part.values()]
    return sum(len(value) for value in (*values, *arrays) if isinstance(value, (str, bytes)))


class FlowerTransport:
    """Sends messages through Flower's grid, as a ``Transport``."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._fetches = ReplyFetches[Message](
            lambda request_id: list(grid.pull_messages([request_id]))
        )

    def nodes(self) -> Sequence[OnlineNode]:
        """The nodes that are online."""
        return [
            OnlineNode(
                node_id=node.node_id,
                name=node.name,
                key=_key(node),
                alive_until=node.online_until,
            )
            for node in self._grid.get_nodes()
        ]

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        """Send each request to its node, as Flower's messages of one group (the round)."""
        messages = []
        sizes = []
        for node_id, request in requests:
            record, size = to_record(request)
            message_type = _MESSAGE_TYPES.get(str(request.header["operation"]), "query")
            messages.append(
                Message(record, node_id, message_type, ttl=lifetime, group_id=str(round))
            )
            sizes.append(size)
        # If Flower accepts none of the messages, it returns an empty list.
        request_ids = list(self._grid.push_messages(messages)) or [None] * len(messages)
        return [
            SentRequest(request_id or None, size)
            for request_id, size in zip(request_ids, sizes, strict=True)
        ]

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        """The replies to these requests that have arrived."""
        return [_reply(message) for message in self._fetches.fetch(request_ids)]


def _key(node: Any) -> str:
    """Digest of a node's registered key; empty for an unregistered node.

    An unregistered node's key changes at each start.
    """
    return hashlib.sha256(node.public_key).hexdigest()[:16] if node.name else ""


def _reply(message: Message) -> NodeReply:
    """The reply in a message of Flower, which may be an error."""
    request_id = message.metadata.reply_to_message_id
    if message.has_error():
        code = message.error.code
        reason = one_line(message.error.reason or "")
        return NodeReply(
            request_id,
            None,
            error=_REASONS.get(code) or f"error {code}: {reason}",
            lost=code in _LOST,
        )
    try:
        parts = _parts_of(message.content)
        content = from_parts(parts)
    except InvalidMessageError as error:
        return NodeReply(request_id, RpcMessage({"failed": str(error)}), _size(message.content))
    digest = digest_of_reply(content, parts)
    return NodeReply(request_id, content, parts.size, digest=digest)


def client_app(
    make_node: Callable[[dict[str, Any], dict[str, Any]], Node],
    make_outbox: Callable[[dict[str, Any]], Outbox | None] = lambda node: None,
) -> ClientApp:
    """A ClientApp whose node answers messages in the app's process.

    Args:
        make_node: makes the node from the configurations of the node and of the run.
        make_outbox: makes the node's outbox from its configuration; None for a node without a
            ledger.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        return reply_here(
            message,
            lambda: make_node(dict(context.node_config), dict(context.run_config)),
            make_outbox(dict(context.node_config)),
        )

    for register in (app.train, app.evaluate, app.query):
        register()(handle)
    return app


def reply_here(
    message: Message,
    make_node: Callable[[], Node],
    outbox: Outbox | None = None,
    refused: Callable[[str], None] = lambda reason: None,
) -> Message:
    """The reply to a message, from a node made in this process.

    Args:
        message: the request.
        make_node: makes the node.
        outbox: writes the reply's line into the site's ledger; None for a node without a ledger.
        refused: called with the reason if the reply refuses the request, otherwise with an empty
            text.
    """

    def read() -> RpcMessage:
        return from_record(message.content)[0]

    if outbox is None:
        reply = respond(make_node, read)
        parts = to_parts(reply, IN_REPLY)
    else:
        reply, parts = respond_recorded(make_node, read, outbox, IN_REPLY)
    refused(reply.refusal)
    return Message(parts_to_record(parts), reply_to=message)
