"""Messages between a server and its nodes: a header of plain values and named arrays.

They are encoded by ``core.codec``.

Models, updates and masked vectors are encoded without compression. Integers and booleans about
clients (ids, model choices, counts) are delta-encoded and compressed first, so a thousand
consecutive ids take a few dozen bytes.
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
_SIZE_LIMIT = 2**25  # bytes that one packed array may decompress to
# Maximum bytes of an array that is sent together with the header. Larger arrays are stored once for
# all nodes.
IN_REQUEST = 2**16
# The same for a reply, which has one receiver. Flower splits pieces of more than 5 MB.
IN_REPLY = 2**22
_MAX_ARRAYS = 24  # in a message; fedkin's messages have up to a dozen


class InvalidMessageError(FedkinError):
    """A message that cannot be used; the text says why."""


@dataclass(frozen=True)
class RpcMessage:
    """A request to a node, or its reply."""

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def refusal(self) -> str:
        """Why a node did not do a request, from its reply; empty in other messages."""
        return str(self.header.get("refused") or self.header.get("failed") or "")

    def value(self, name: str, kind: type) -> Any:
        """An entry of the header. Raises InvalidMessageError if it is missing or has another
        type."""
        value = self.header.get(name)
        if type(value) is not kind:
            raise InvalidMessageError(f"expected {name} ({kind.__name__}), got {str(value)[:60]!r}")
        return value

    def array(self, name: str) -> np.ndarray:
        """An array of any type. Raises InvalidMessageError if it is missing."""
        if name not in self.arrays:
            raise InvalidMessageError(
                f"expected {name}, got {', '.join(sorted(self.arrays)) or 'no array'}"
            )
        return self.arrays[name]

    def floats(self, name: str, *shape: int) -> np.ndarray:
        """A float array of this shape. Raises InvalidMessageError for anything else."""
        return self._checked(name, "f", shape)

    def integers(self, name: str, *shape: int) -> np.ndarray:
        """An integer array of this shape. Raises InvalidMessageError for anything else."""
        return self._checked(name, "iu", shape).astype(np.int64)

    def booleans(self, name: str, *shape: int) -> np.ndarray:
        """A boolean array of this shape. Raises InvalidMessageError for anything else."""
        return self._checked(name, "b", shape)

    def _checked(self, name: str, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
        array = self.arrays.get(name)
        if array is None:
            raise InvalidMessageError(f"expected {name} of shape {list(shape)}, got none")
        if array.dtype.kind not in kinds or array.shape != shape:
            raise InvalidMessageError(
                f"expected {name} of shape {list(shape)}, got {array.dtype} of shape "
                f"{list(array.shape)}"
            )
        return array


def one_line(text: object, limit: int = 300) -> str:
    """Untrusted text as one line of a log: printable characters only, cut at ``limit``."""
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
        raise InvalidMessageError(f"a message that cannot be read: {one_line(error)}") from error
    if len(arrays) > _MAX_ARRAYS:
        raise InvalidMessageError(f"{len(arrays)} arrays in a message")
    decoded = {}
    for name, array in arrays.items():
        if name.startswith(_PACKED):
            decoded[name.removeprefix(_PACKED)] = unpack(array.tobytes())
        elif _as_it_is(array):
            # Copy, because a node trains in place and decoded arrays are read-only.
            decoded[name] = array.copy()
        else:
            raise InvalidMessageError(f"{one_line(name, 60)} is {array.dtype} and not packed")
    return RpcMessage(header, decoded)


def to_parts(message: RpcMessage, whole: int = IN_REQUEST) -> Frames:
    """A message as named bytes. Raises ValueError as ``encode``.

    Args:
        message: the message.
        whole: float arrays of more bytes become separate parts, which an engine may send
            separately.
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


def _as_it_is(array: np.ndarray) -> bool:
    """Whether an array is sent uncompressed: floats, and the uint32 of masked vectors, which are
    noise."""
    return array.dtype.kind == "f" or array.dtype == np.uint32


def pack(numbers: np.ndarray) -> bytes:
    """Integers or booleans, compressed."""
    flat = numbers.astype(np.int64).ravel()
    steps = np.diff(flat, prepend=0).astype("<i8")
    head = np.array([numbers.dtype.kind == "b", numbers.ndim, *numbers.shape], "<i8")
    # Group the bytes by significance, which compresses better.
    by_byte = steps.view(np.uint8).reshape(-1, 8).T
    return zlib.compress(head.tobytes() + by_byte.tobytes(), 6)


def unpack(data: bytes) -> np.ndarray:
    """The integers or booleans that ``pack`` compressed. Raises InvalidMessageError for any other
    bytes."""
    try:
        stream = zlib.decompressobj()
        # The stream must end within the limit.
        raw = stream.decompress(data, _SIZE_LIMIT + 1)
        head = np.frombuffer(raw[: 8 * _HEAD], "<i8")
        start = 8 * (_HEAD + int(head[1]))
        shape = tuple(np.frombuffer(raw[8 * _HEAD : start], "<i8").tolist())
        by_byte = np.frombuffer(raw[start:], np.uint8).reshape(8, -1)
        steps = by_byte.T.copy().view("<i8").ravel()
        flat = np.cumsum(steps, dtype=np.int64).reshape(shape)
    except (zlib.error, ValueError, IndexError) as error:
        raise InvalidMessageError("packed numbers that cannot be read") from error
    if not stream.eof or stream.unused_data:
        raise InvalidMessageError(
            f"packed numbers that are cut, or of more than {_SIZE_LIMIT} bytes"
        )
    return flat.astype(bool) if head[0] else flat
