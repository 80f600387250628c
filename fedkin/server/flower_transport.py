"""Flower as the ``Transport``: the only module of fedkin's library that sends with ``flwr``.

A message is a ConfigRecord with the header and the packed arrays, and an ArrayRecord with one ``Array`` per model or
update, all encoded by ``message``. Models are not part of one blob because Flower (1.41) cuts only an ``Array`` into
chunks (5 MB each) and stores objects by their content: a model that goes to a hundred nodes is uploaded once, and a
ConfigRecord of any size would be sent whole, a hundred times. Replies are matched to their request,
never by the node that Flower names.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedkin.core.errors import FedkinError
from fedkin.server.message import InvalidMessageError, RpcMessage, decode, encode, one_line
from fedkin.server.node import Node
from fedkin.server.transport import OnlineNode, Reply, SentRequest

_log = logging.getLogger("fedkin")
_ARRAYS, _REST, _MESSAGE = "arrays", "rest", "message"
_MESSAGE_TYPES = {"train": "train", "evaluate": "evaluate"}  # Flower's; every other operation is a query
_MAX_ARRAYS = 24
_LOST = {3, 4, 5, 8}  # error codes: message unavailable, reply expired, node unavailable, client process crashed
_REASONS = {3: "the message was lost", 4: "the reply came too late", 5: "the node is gone", 8: "its process crashed"}


def to_record(message: RpcMessage) -> tuple[RecordDict, int]:
    """A message as Flower sends it, and its bytes."""
    floats = {name: array for name, array in message.arrays.items() if array.dtype.kind == "f"}
    rest = RpcMessage(message.header, {name: a for name, a in message.arrays.items() if name not in floats})
    arrays = {
        name: Array(str(a.dtype), a.shape, "fedkin", encode(RpcMessage({}, {name: a}))) for name, a in floats.items()
    }
    record = RecordDict({_REST: ConfigRecord({_MESSAGE: encode(rest)})})
    if arrays:
        record[_ARRAYS] = ArrayRecord(arrays)
    return record, _size(record)


def from_record(record: RecordDict) -> tuple[RpcMessage, int]:
    """A message that Flower has delivered, and its bytes. Raises InvalidMessageError for anything else."""
    try:
        rest, arrays = record.config_records[_REST][_MESSAGE], record.array_records.get(_ARRAYS, {})
        parts = [rest, *(array.data for array in arrays.values())]
    except (KeyError, AttributeError) as error:
        raise InvalidMessageError(f"a message that cannot be read ({type(error).__name__})") from error
    if not all(isinstance(part, bytes) for part in parts) or len(parts) > _MAX_ARRAYS:
        raise InvalidMessageError(f"expected bytes, in at most {_MAX_ARRAYS} parts")
    message, *others = map(decode, parts)
    for other in others:
        message.arrays.update(other.arrays)
    return message, _size(record)


def _size(record: RecordDict) -> int:
    """Bytes of a message, whether it can be read or not."""
    values = [value for rest in record.config_records.values() for value in rest.values()]
    arrays = [array.data for part in record.array_records.values() for array in part.values()]
    return sum(len(value) for value in (*values, *arrays) if isinstance(value, (str, bytes)))


class FlowerTransport:
    """A grid of Flower as a ``Transport``."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Sequence[OnlineNode]:
        return [OnlineNode(n.node_id, n.name, _key(n), n.online_until) for n in self._grid.get_nodes()]

    def push(self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float) -> Sequence[SentRequest]:
        messages, sizes = [], []
        for node_id, request in requests:
            record, size = to_record(request)
            message_type = _MESSAGE_TYPES.get(str(request.header["operation"]), "query")
            messages.append(Message(record, node_id, message_type, ttl=lifetime, group_id=str(round)))
            sizes.append(size)
        request_ids = list(self._grid.push_messages(messages)) or [None] * len(messages)
        return [SentRequest(one or None, size) for one, size in zip(request_ids, sizes, strict=True)]

    def pull(self, request_ids: Iterable[str]) -> Sequence[Reply]:
        return [_reply(message) for message in self._grid.pull_messages(list(request_ids))]


def _key(node: Any) -> str:
    """A digest of the key that a node is registered under; one that is not makes a new key at each start."""
    return hashlib.sha256(node.public_key).hexdigest()[:16] if node.name else ""


def _reply(message: Message) -> Reply:
    request_id = message.metadata.reply_to_message_id
    if message.has_error():
        code, reason = message.error.code, one_line(message.error.reason or "")
        return Reply(request_id, None, error=_REASONS.get(code) or f"error {code}: {reason}", lost=code in _LOST)
    try:
        content, size = from_record(message.content)
    except InvalidMessageError as error:
        return Reply(request_id, RpcMessage({"failed": str(error)}), _size(message.content))
    return Reply(request_id, content, size)


def client_app(make_node: Callable[[dict[str, Any], dict[str, Any]], Node]) -> ClientApp:
    """A ClientApp that replies with the node that ``make_node(node_config, run_config)`` returns."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        reply, _ = to_record(_replied(message, context))
        return Message(reply, reply_to=message)

    for register in (app.train, app.evaluate, app.query):
        register()(handle)

    def _replied(message: Message, context: Context) -> RpcMessage:
        try:
            request, _ = from_record(message.content)
            return make_node(dict(context.node_config), dict(context.run_config)).handle(request)
        except FedkinError as error:
            text = " ".join(str(error).split())
            _log.error("this client cannot reply: %s", text)
            return RpcMessage({"failed": text[:2000]})

    return app
