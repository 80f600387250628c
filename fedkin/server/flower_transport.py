"""Flower as the engine that carries letters: all of fedkin that imports ``flwr``.

A letter is one message: its header in a ConfigRecord, its models and updates in an ArrayRecord, its packed numbers in
the ConfigRecord too. Answers are known by the letter they answer, never by who the engine says has sent them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedkin.core.errors import FedkinError
from fedkin.server.message import InvalidMessageError, RpcMessage, header_of, pack, unpack
from fedkin.server.node import Node
from fedkin.server.request_round import Answer, OnlineNode, Sent

_log = logging.getLogger("fedkin")
_ARRAYS, _REST, _HEADER = "arrays", "rest", "header"
_KINDS = {"train": "train", "evaluate": "evaluate"}  # Flower's kinds of messages; every other verb is a query
_MOST_ARRAYS = 24  # in a message; ours have up to a dozen
_LOST = {3, 4, 5, 8}  # error codes: message unavailable, reply expired, node unavailable, client process crashed
_WORDS = {3: "the message was lost", 4: "the reply came too late", 5: "the node is gone", 8: "its process crashed"}


def to_record(rpc_message: RpcMessage) -> tuple[RecordDict, int]:
    """A parcel as Flower carries it, and its bytes."""
    floats = {name: Array(np.ascontiguousarray(a)) for name, a in rpc_message.arrays.items() if a.dtype.kind == "f"}
    packed = {name: pack(a) for name, a in rpc_message.arrays.items() if a.dtype.kind != "f"}
    text = rpc_message.text()
    rest = ConfigRecord({_HEADER: text, **{f"packed.{name}": data for name, data in packed.items()}})
    size = len(text) + sum(len(array.data) for array in floats.values()) + sum(map(len, packed.values()))
    return RecordDict({_REST: rest, **({_ARRAYS: ArrayRecord(floats)} if floats else {})}), size


def from_record(record: RecordDict) -> tuple[RpcMessage, int]:
    """A parcel that came, and its bytes. Raises Unfit for anything that is none."""
    try:
        rest, arrays = record.config_records[_REST], record.array_records.get(_ARRAYS, {})
        text = rest[_HEADER]
        packed = {name[7:]: data for name, data in rest.items() if name != _HEADER and isinstance(data, bytes)}
        if not isinstance(text, str):
            raise InvalidMessageError("a message of another form")
        if len(packed) + len(arrays) > _MOST_ARRAYS:
            raise InvalidMessageError(f"{len(packed) + len(arrays)} arrays in a message")
        floats = {str(name): _floats(array.data) for name, array in arrays.items()}
        size = len(text) + sum(len(array.data) for array in arrays.values()) + sum(map(len, packed.values()))
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, OverflowError) as error:
        raise InvalidMessageError(f"a message that cannot be read ({type(error).__name__})") from error
    return RpcMessage(header_of(text), floats | {name: unpack(data) for name, data in packed.items()}), size


def _size(record: RecordDict) -> int:
    """Bytes of a message that cannot be read."""
    packed = [value for rest in record.config_records.values() for value in rest.values()]
    arrays = [array.data for part in record.array_records.values() for array in part.values()]
    return sum(len(value) for value in (*packed, *arrays) if isinstance(value, (str, bytes)))


def _floats(data: bytes) -> np.ndarray:
    """An array in NumPy's own format, believed no further than its bytes reach. Raises ValueError for anything else."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version of the format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    count = math.prod(shape)
    if dtype.kind != "f" or fortran or count * dtype.itemsize != len(data) - file.tell():
        raise ValueError("no plain floats, or more or fewer than announced")
    flat = np.frombuffer(data, dtype, count, file.tell()) if count else np.zeros(0, dtype)
    return flat.reshape(shape).copy()  # whoever trains wants to write


class FlowerTransport:
    """A grid of Flower as a ``Transport``."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Sequence[OnlineNode]:
        return [OnlineNode(n.node_id, n.name, _key(n), n.online_until) for n in self._grid.get_nodes()]

    def push(self, letters: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float) -> Sequence[Sent]:
        messages, sizes = [], []
        for node, rpc_message in letters:
            record, size = to_record(rpc_message)
            kind = _KINDS.get(str(rpc_message.header["verb"]), "query")
            messages.append(Message(record, node, kind, ttl=lifetime, group_id=str(round)))
            sizes.append(size)
        numbers = list(self._grid.push_messages(messages)) or [None] * len(messages)
        return [Sent(number or None, size) for number, size in zip(numbers, sizes, strict=True)]

    def pull(self, letters: Iterable[str]) -> Sequence[Answer]:
        return [_answer(message) for message in self._grid.pull_messages(list(letters))]


def _key(node: Any) -> str:
    """The key that a node is registered under; one that is not makes itself another each time that it starts."""
    return hashlib.sha256(node.public_key).hexdigest()[:16] if node.name else ""


def _answer(message: Message) -> Answer:
    letter = message.metadata.reply_to_message_id
    if message.has_error():
        code, reason = message.error.code, message.error.reason or ""
        words = " ".join(reason.split())[:300]
        return Answer(letter, None, error=_WORDS.get(code) or f"error {code}: {words}", lost=code in _LOST)
    try:
        rpc_message, size = from_record(message.content)
    except InvalidMessageError as error:
        return Answer(letter, RpcMessage({"failed": str(error)}), _size(message.content))
    return Answer(letter, rpc_message, size)


def client_app(make: Callable[[dict[str, Any], dict[str, Any]], Node]) -> ClientApp:
    """A ClientApp that answers with the node that ``make`` makes of its node's and its run's configuration."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        reply, _ = to_record(_answered(message, context))
        return Message(reply, reply_to=message)

    for register in (app.train, app.evaluate, app.query):
        register()(answer)

    def _answered(message: Message, context: Context) -> RpcMessage:
        try:
            letter, _ = from_record(message.content)
            return make(dict(context.node_config), dict(context.run_config)).answer(letter)
        except FedkinError as error:
            text = " ".join(str(error).split())
            _log.error("this client cannot answer: %s", text)
            return RpcMessage({"failed": text[:2000]})

    return app
