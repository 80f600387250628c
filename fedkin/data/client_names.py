"""The names of clients, stored in two arrays instead of N Python strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload
from zlib import crc32

import numpy as np
from jaxtyping import Int, UInt8

from fedkin.core.object_repr import listed

# An encoding for any text that Python can hold.
_CODING = ("utf-8", "surrogatepass")
# Number of names that are decoded to Python strings at a time.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False, repr=False)
class ClientNames(Sequence[str]):
    """The names of N clients: an immutable sequence, equal to a tuple or list of the same names.

    Attributes:
        text: all names, concatenated in UTF-8.
        offsets: name i is ``text[offsets[i]:offsets[i+1]]``.
    """

    text: UInt8[np.ndarray, "L"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, names: Iterable[object]) -> ClientNames:
        """The given names as one ``ClientNames``. Bytes are read as UTF-8; other values become
        text."""
        if isinstance(names, ClientNames):
            return names
        text = bytearray()

        def ends() -> Iterator[int]:
            """Append each client's name to ``text``, and yield the position where it ends."""
            for name in names:
                text.extend(_text(name).encode(*_CODING))
                yield len(text)

        # `text` is complete only after `ends` has run, so the offsets are read first.
        offsets = np.concatenate([np.zeros(1, np.int64), np.fromiter(ends(), np.int64)])
        return cls(np.frombuffer(bytes(text), np.uint8), offsets)

    def is_whole(self) -> bool:
        """Whether the arrays of names are valid. Those of a damaged file may be invalid."""
        text = self.text
        offsets = self.offsets
        if text.dtype != np.uint8 or offsets.dtype.kind != "i":
            return False
        if text.ndim != 1 or offsets.ndim != 1 or not len(offsets):
            return False
        ascending = (np.diff(offsets) >= 0).all()
        return bool(offsets[0] == 0 and offsets[-1] == len(text) and ascending)

    @property
    def nbytes(self) -> int:
        """Size of both arrays in bytes."""
        return self.text.nbytes + self.offsets.nbytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> ClientNames: ...
    def __getitem__(self, index: int | slice) -> str | ClientNames:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return ClientNames.of(self[i] for i in range(start, stop, step))
            offsets = self.offsets[start : max(start, stop) + 1]
            return ClientNames(self.text[offsets[0] : offsets[-1]], offsets - offsets[0])
        # A range handles negative numbers, and raises IndexError.
        client = range(len(self))[index]
        return _decoded(self.text[self.offsets[client] : self.offsets[client + 1]].tobytes())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            block = self[start : start + _BLOCK]
            text = block.text.tobytes()
            offsets = block.offsets.tolist()
            for begin, end in zip(offsets, offsets[1:], strict=False):
                yield _decoded(text[begin:end])

    def select(self, clients: Int[np.ndarray, "n"]) -> ClientNames:
        """The names of these clients, in this order; a client may occur twice."""
        sizes = np.diff(self.offsets)[clients]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        start = np.repeat(self.offsets[:-1][clients] - offsets[:-1], sizes)
        return ClientNames(self.text[start + np.arange(offsets[-1])], offsets)

    def positions(self, name: str) -> Int[np.ndarray, "m"]:
        """The clients with this name, ascending; empty if there are none."""
        checksums, clients = self._by_checksum
        checksum = _checksum(name)
        first = np.searchsorted(checksums, checksum, "left")
        end = np.searchsorted(checksums, checksum, "right")

        # Different names may have the same checksum, so names are compared too.
        candidates = clients[first:end].tolist()
        return np.array([client for client in candidates if self[client] == name], np.int64)

    @cached_property
    def _by_checksum(self) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """Sorted checksums of all names, and the client of each; computed on first use."""
        checksums = np.fromiter(map(_checksum, self), np.int64, len(self))
        clients = np.argsort(checksums, kind="stable")
        return checksums[clients], clients

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self.positions(name)) > 0

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, ClientNames):
            same_offsets = np.array_equal(self.offsets, other.offsets)
            return same_offsets and np.array_equal(self.text, other.text)
        if not isinstance(other, (tuple, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(name == expected for name, expected in zip(self, other, strict=True))

    def __hash__(self) -> int:
        # Equal objects need equal hashes, and these names can equal a tuple.
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ClientNames({listed(self)})"


def _text(name: object) -> str:
    """A client's name as text, from text, bytes or another value."""
    return _decoded(name) if isinstance(name, bytes) else str(name)


def _decoded(encoded: bytes) -> str:
    """A client's name from its stored bytes, with replacement characters for damaged bytes."""
    try:
        return encoded.decode(*_CODING)
    except UnicodeDecodeError:
        # The file is damaged.
        return encoded.decode(errors="replace")


def _checksum(name: str) -> int:
    """The checksum of a client's name, by which the name is looked up."""
    return crc32(name.encode(*_CODING))
