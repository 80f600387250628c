"""What travels between a server and its nodes: a small header of plain values, and named arrays.

Models and updates are sent as they are. Whole numbers about clients (ids, choices, counts) travel packed: differences
of neighbours, compressed, so that a thousand consecutive ids take a few dozen bytes.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedkin.core.errors import FedkinError

_HEAD = 2  # whole numbers in front of the shape: whether they are truth values, how many axes there are
_LARGEST = 2**25  # bytes that the packed numbers of one array may unfold to


class InvalidMessageError(FedkinError):
    """A parcel that is not used; the text says what was wrong with it."""


@dataclass(frozen=True)
class RpcMessage:
    """A letter to a node, or its answer."""

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def text(self) -> str:
        """The header as it travels."""
        return json.dumps(self.header, separators=(",", ":"), allow_nan=False)

    def value(self, name: str, kind: type) -> Any:
        """One entry of the header. Raises Unfit where it is missing, or of another type."""
        found = self.header.get(name)
        if type(found) is not kind:
            raise InvalidMessageError(f"expected {name} ({kind.__name__}), got {str(found)[:60]!r}")
        return found

    def array(self, name: str) -> np.ndarray:
        """Any array. Raises Unfit where it is missing."""
        if name not in self.arrays:
            raise InvalidMessageError(f"expected {name}, got {', '.join(sorted(self.arrays)) or 'no array'}")
        return self.arrays[name]

    def floats(self, name: str, *shape: int) -> np.ndarray:
        """An array of floats of this shape. Raises Unfit for anything else."""
        return self._array(name, "f", shape)

    def singles(self, name: str, *shape: int) -> np.ndarray:
        """An array of float32 of this shape, as models and updates travel. Raises Unfit for anything else."""
        found = self.floats(name, *shape)
        if found.dtype != np.float32:
            raise InvalidMessageError(f"expected {name} in float32, got {found.dtype}")
        return found

    def integers(self, name: str, *shape: int) -> np.ndarray:
        """An array of whole numbers of this shape. Raises Unfit for anything else."""
        return self._array(name, "iu", shape).astype(np.int64)

    def truths(self, name: str, *shape: int) -> np.ndarray:
        """An array of truth values of this shape. Raises Unfit for anything else."""
        return self._array(name, "b", shape)

    def _array(self, name: str, kinds: str, shape: tuple[int, ...]) -> np.ndarray:
        found = self.arrays.get(name)
        if found is None:
            raise InvalidMessageError(f"expected {name} of shape {list(shape)}, got none")
        if found.dtype.kind not in kinds or found.shape != shape:
            raise InvalidMessageError(
                f"expected {name} of shape {list(shape)}, got {found.dtype} of shape {list(found.shape)}"
            )
        return found


def plain(text: object, most: int = 300) -> str:
    """What somebody else says, as one line for a log: nothing that a terminal would obey, and an end."""
    line = " ".join(str(text).split())
    line = "".join(sign if sign.isprintable() else "?" for sign in line)
    return line if len(line) <= most else f"{line[:most]}..."


def header_of(text: str) -> dict[str, Any]:
    """A header that came. Raises Unfit where it is none."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError("a header that is not JSON") from error
    if not isinstance(header, dict):
        raise InvalidMessageError("a header that is not an object")
    return header


def pack(numbers: np.ndarray) -> bytes:
    """Whole numbers or truth values, compressed."""
    flat = numbers.astype(np.int64).ravel()
    steps = np.diff(flat, prepend=0).astype("<i8")
    head = np.array([numbers.dtype.kind == "b", numbers.ndim, *numbers.shape], "<i8")
    return zlib.compress(head.tobytes() + steps.view(np.uint8).reshape(-1, 8).T.tobytes(), 6)


def unpack(data: bytes) -> np.ndarray:
    """What ``pack`` made. Raises Unfit for anything else."""
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(data, _LARGEST)
        head = np.frombuffer(raw[: 8 * _HEAD], "<i8")
        start = 8 * (_HEAD + int(head[1]))
        shape = tuple(np.frombuffer(raw[8 * _HEAD : start], "<i8").tolist())
        steps = np.frombuffer(raw[start:], np.uint8).reshape(8, -1).T.copy().view("<i8").ravel()
        flat = np.cumsum(steps, dtype=np.int64).reshape(shape)
    except (zlib.error, ValueError, IndexError) as error:
        raise InvalidMessageError("packed numbers that cannot be read") from error
    if stream.unconsumed_tail:
        raise InvalidMessageError("packed numbers without end")
    return flat.astype(bool) if head[0] else flat
