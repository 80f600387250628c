"""Messages between a server and its nodes: a header of plain values, and named arrays.

``core.codec`` encodes them.

Models, updates and masked vectors are not compressed. Integers and booleans about clients (ids,
model choices, counts) are delta-encoded and compressed, so a thousand consecutive ids take a few
dozen bytes.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedkin.core import codec
from fedkin.core.errors import FedkinError
from fedkin.server.frames import Frame, Frames

_PACKED = "packed."  # prefix of the names of packed arrays
# Integers before a packed array's shape: whether it is boolean, and its number of axes.
_HEAD = 2
_SIZE_LIMIT = 2**25  # largest size in bytes of a packed array after decompression
# Largest size in bytes of an array that is sent together with the header. Larger arrays are stored
# once for all nodes.
IN_REQUEST = 2**16
# The same limit for a reply, which has one receiver. Flower splits pieces of more than 5 MB.
IN_REPLY = 2**22
_MAX_ARRAYS = 24  # most arrays in a message; fedkin's messages have up to a dozen


class InvalidMessageError(FedkinError):
    """A message cannot be used, for the reason in the text."""


@dataclass(frozen=True)
class RpcMessage:
    """A request to a node, or its reply.

    ``note`` has facts about a reply for the site's ledger, such as the number of subjects behind
    it. It is never sent.
    """

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def refusal(self) -> str:
        """Why a node refused or failed a request; empty in all other messages."""
        return str(self.header.get("refused") or self.header.get("failed") or "")

    def value(self, name: str, kind: type) -> Any:
        """An entry of the message's header. Raises InvalidMessageError if the entry is missing or
        has another type."""
        value = self.header.get(name)
        if type(value) is not kind:
            raise InvalidMessageError(
                f"expected the header entry {name} ({kind.__name__}), got {str(value)[:60]!r}"
            )
        return value

    def array(self, name: str) -> np.ndarray:
        """The array ``name`` of the message, of any type and shape. Raises InvalidMessageError if
        it is missing."""
        if name not in self.arrays:
            raise InvalidMessageError(
                f"expected the array {name}, got {', '.join(sorted(self.arrays)) or 'no array'}"
            )
        return self.arrays[name]

    def floats(self, name: str, *shape: int) -> np.ndarray:
        """The float array ``name`` of the message.

        Raises InvalidMessageError if it is missing, or has another shape or type.
        """
        return self._checked(name, "f", shape)

    def integers(self, name: str, *shape: int) -> np.ndarray:
        """The integer array ``name`` of the message, as int64.

        Raises InvalidMessageError if it is missing, or has another shape or type.
        """
        return self._checked(name, "iu", shape).astype(np.int64)

    def booleans(self, name: str, *shape: int) -> np.ndarray:
        """The boolean array ``name`` of the message.

        Raises InvalidMessageError if it is missing, or has another shape or type.
        """
        return self._checked(name, "b", shape)

    def _checked(self, name: str, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
        """The array ``name`` of the message.

        Raises InvalidMessageError if it is missing, has another shape, or has numbers of a kind
        that is not among ``kinds`` (NumPy's letters).
        """
        array = self.arrays.get(name)
        if array is None:
            raise InvalidMessageError(f"expected the array {name} of shape {list(shape)}, got none")
        if array.dtype.kind not in kinds or array.shape != shape:
            raise InvalidMessageError(
                f"expected the array {name} of shape {list(shape)}, got {array.dtype} of shape "
                f"{list(array.shape)}"
            )
        return array


def one_line(text: object, limit: int = 300) -> str:
    """Untrusted text as one line of a log: printable characters only, cut after ``limit``
    characters."""
    line = " ".join(str(text).split())
    line = "".join(sign if sign.isprintable() else "?" for sign in line)
    return line if len(line) <= limit else f"{line[:limit]}..."


def encode(message: RpcMessage) -> bytes:
    """A message as bytes. Raises ValueError for a header that JSON cannot hold (NaN)."""
    floats = {}
    packed = {}
    for name, array in message.arrays.items():
        if _as_it_is(array):
            floats[name] = array
        else:
            packed[f"{_PACKED}{name}"] = np.frombuffer(pack(array), np.uint8)
    return codec.encode(message.header, floats | packed)


def decode(data: bytes) -> RpcMessage:
    """The message that ``encode`` made. Raises InvalidMessageError for any other bytes."""
    try:
        header, arrays = codec.decode(data)
    except ValueError as error:
        raise InvalidMessageError(f"the message cannot be read: {one_line(error)}") from error
    if len(arrays) > _MAX_ARRAYS:
        raise InvalidMessageError(
            f"the message has {len(arrays)} arrays, more than the limit of {_MAX_ARRAYS}"
        )
    decoded = {}
    for name, array in arrays.items():
        if name.startswith(_PACKED):
            decoded[name.removeprefix(_PACKED)] = unpack(array.tobytes())
        elif _as_it_is(array):
            # Decoded arrays are read-only, but a node trains in place, so it needs a copy.
            decoded[name] = array.copy()
        else:
            raise InvalidMessageError(
                f"the array {one_line(name, 60)} has type {array.dtype}, which must be sent packed"
            )
    return RpcMessage(header, decoded)


def to_parts(message: RpcMessage, whole: int = IN_REQUEST) -> Frames:
    """A message as named bytes. Raises ValueError as ``encode`` does.

    Args:
        message: the message.
        whole: float arrays of more bytes than this become separate frames, so that the transport
            can send each of them by itself.
    """
    together = {}
    separate = {}
    for name, array in message.arrays.items():
        if _as_it_is(array) and array.nbytes > whole:
            content = encode(RpcMessage({}, {name: array}))
            separate[name] = Frame(str(array.dtype), array.shape, content)
        else:
            together[name] = array
    return Frames(encode(RpcMessage(message.header, together)), separate)


def from_parts(parts: Frames) -> RpcMessage:
    """The message that ``to_parts`` made. Raises InvalidMessageError for any other parts."""
    message = decode(parts.rest)
    separate = [decode(part.data) for part in parts.arrays.values()]
    for part in separate:
        message.arrays.update(part.arrays)
    return message


def operation_of(parts: Frames) -> str:
    """The operation (name of a task) that a request names, for a line of a log."""
    try:
        header, _ = codec.decode(parts.rest)
    except ValueError:
        return "a message that cannot be read"
    return one_line(header.get("operation", "a message without a task"), 60)


def _as_it_is(array: np.ndarray) -> bool:
    """Whether an array is sent without compression.

    These are floats, and the uint32 numbers of masked vectors: both look like noise, which cannot
    be compressed.
    """
    return array.dtype.kind == "f" or array.dtype == np.uint32


def pack(numbers: np.ndarray) -> bytes:
    """Compress an array of integers or booleans to bytes."""
    flat = numbers.astype(np.int64).ravel()
    # Differences of neighbours: consecutive ids become ones, which compress well.
    steps = np.diff(flat, prepend=0).astype("<i8")
    head = np.array([numbers.dtype.kind == "b", numbers.ndim, *numbers.shape], "<i8")
    # Bytes of equal significance next to each other compress better.
    by_byte = steps.view(np.uint8).reshape(-1, 8).T
    return zlib.compress(head.tobytes() + by_byte.tobytes(), 6)


def unpack(data: bytes) -> np.ndarray:
    """The integers or booleans that ``pack`` compressed.

    Raises InvalidMessageError for bytes that ``pack`` did not make.
    """
    try:
        stream = zlib.decompressobj()
        # Decompress no more than the limit: then the stream must have ended.
        raw = stream.decompress(data, _SIZE_LIMIT + 1)
        head = np.frombuffer(raw[: 8 * _HEAD], "<i8")
        start = 8 * (_HEAD + int(head[1]))
        shape = tuple(np.frombuffer(raw[8 * _HEAD : start], "<i8").tolist())
        by_byte = np.frombuffer(raw[start:], np.uint8).reshape(8, -1)
        steps = by_byte.T.copy().view("<i8").ravel()
        flat = np.cumsum(steps, dtype=np.int64).reshape(shape)
    except (zlib.error, ValueError, IndexError) as error:
        raise InvalidMessageError("the packed numbers of an array cannot be read") from error
    if not stream.eof or stream.unused_data:
        raise InvalidMessageError(
            f"an array's packed numbers are cut off, or have more than {_SIZE_LIMIT} bytes"
        )
    return flat.astype(bool) if head[0] else flat
