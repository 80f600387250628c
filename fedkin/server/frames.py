"""A message as named bytes, which is sent in Flower's records and over a site's socket.

Only the standard library is imported here, because a process that imports this module starts for
every message to a site.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

_LENGTH = struct.Struct(">Q")  # length of a head, sent before it
_HEAD_LIMIT = 2**24  # largest length of a head in bytes


@dataclass(frozen=True)
class Frame:
    """One encoded array, with the type and shape that Flower needs."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Frames:
    """A message as bytes: ``rest`` has its header and packed arrays, ``arrays`` the large
    arrays."""

    rest: bytes
    arrays: dict[str, Frame] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of the whole message in bytes."""
        return len(self.rest) + sum(len(part.data) for part in self.arrays.values())


def write_frame(
    connection: socket.socket, head: dict[str, Any], parts: Frames | None = None
) -> None:
    """Send a head of plain values, and after it a message if there is one. Raises OSError.

    Args:
        connection: connection to the receiver.
        head: values that JSON can hold, without the keys ``rest`` and ``arrays``.
        parts: the message; None to send only the head.
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
    """Receive the head and the message that ``write_frame`` sent.

    Raises ConnectionError if the other side disconnects or sends something else.
    """
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    if length > _HEAD_LIMIT:
        raise ConnectionError(
            f"the message's head (its plain values) would have {length} bytes, but at most "
            f"{_HEAD_LIMIT} are allowed"
        )
    try:
        head = json.loads(_read(connection, length))
        if not isinstance(head, dict):
            raise ValueError("its head is not a JSON object")
        if "rest" not in head:
            return head, None
        rest = _read(connection, head.pop("rest"))
        arrays = {
            name: Frame(dtype, tuple(shape), _read(connection, size))
            for name, dtype, shape, size in head.pop("arrays")
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ConnectionError(f"the message cannot be read ({error})") from error
    return head, Frames(rest, arrays)


def _read(connection: socket.socket, size: int) -> bytes:
    """Receive exactly ``size`` bytes from a socket."""
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = connection.recv_into(view[done:])
        if not count:
            raise ConnectionError("the other side of the socket has disconnected")
        done += count
    return bytes(data)
