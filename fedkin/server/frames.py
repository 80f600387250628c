"""A message as named bytes, as sent in Flower's records and over a site's socket.

Only the standard library is imported here, because every message to a site starts a process that
imports this module.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct(">Q")  # length prefix of a head
_HEAD_LIMIT = 2**24  # bytes


@dataclass(frozen=True)
class Frame:
    """One encoded array, with its type and shape for Flower."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Frames:
    """A message: its header with the packed arrays, and each float array by name, all encoded."""

    rest: bytes
    arrays: dict[str, Frame] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return len(self.rest) + sum(len(part.data) for part in self.arrays.values())


def write_frame(
    connection: socket.socket, head: dict[str, Any], parts: Frames | None = None
) -> None:
    """Send a head of plain values and, optionally, a message. Raises OSError.

    Args:
        connection: to send it on.
        head: values that JSON can hold, without ``rest`` and ``arrays``.
        parts: the message; None: no message.
    """
    if parts is not None:
        arrays = [
            [name, part.dtype, list(part.shape), len(part.data)]
            for name, part in parts.arrays.items()
        ]
        head = {**head, "rest": len(parts.rest), "arrays": arrays}
    text = json.dumps(head).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)
    if parts is not None:
        for data in (parts.rest, *(part.data for part in parts.arrays.values())):
            connection.sendall(data)


def read_frame(connection: socket.socket) -> tuple[dict[str, Any], Frames | None]:
    """The head and the message that ``write_frame`` sent.

    Raises ConnectionError if the other side disconnects or sends anything else.
    """
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    if length > _HEAD_LIMIT:
        raise ConnectionError(f"a head of {length} bytes")
    try:
        head = json.loads(_read(connection, length))
        if not isinstance(head, dict):
            raise ValueError("no head")
        if "rest" not in head:
            return head, None
        rest = _read(connection, head.pop("rest"))
        arrays = {
            name: Frame(dtype, tuple(shape), _read(connection, size))
            for name, dtype, shape, size in head.pop("arrays")
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ConnectionError(f"a message that cannot be read ({error})") from error
    return head, Frames(rest, arrays)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = connection.recv_into(view[done:])
        if not count:
            raise ConnectionError("the other side has ended")
        done += count
    return bytes(data)
