"""The names of clients as a column: two arrays instead of N Python strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload
from zlib import crc32

import numpy as np
from jaxtyping import Int, UInt8

from fedkin.core.display import listed

_CODING = "utf-8", "surrogatepass"  # of any text that Python can hold
_BLOCK = 2**16  # names that are strings at a time


@dataclass(frozen=True, eq=False, repr=False)
class ClientNames(Sequence[str]):
    """The names of N clients, an immutable sequence that equals a tuple or a list of the same
    names.

    Attributes:
        text: all names one after another, in UTF-8.
        offsets: name i is ``text[offsets[i]:offsets[i+1]]``.
    """

    text: UInt8[np.ndarray, "L"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, names: Iterable[object]) -> ClientNames:
        """The column of these names; bytes are read as UTF-8, and what is no text is written as
        text."""
        if isinstance(names, ClientNames):
            return names
        text = bytearray()

        def ends() -> Iterator[int]:
            for name in names:
                text.extend(_text(name).encode(*_CODING))
                yield len(text)

        offsets = np.fromiter(ends(), np.int64)
        return cls(
            np.frombuffer(bytes(text), np.uint8), np.concatenate([np.zeros(1, np.int64), offsets])
        )

    def is_whole(self) -> bool:
        """Whether the arrays, such as those of a file, hold names."""
        offsets = self.offsets
        integers = self.text.dtype == np.uint8 and self.offsets.dtype.kind == "i"
        if not integers or self.text.ndim != 1 or offsets.ndim != 1 or not len(offsets):
            return False
        return bool(
            offsets[0] == 0 and offsets[-1] == len(self.text) and (np.diff(offsets) >= 0).all()
        )

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
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
        client = range(len(self))[index]  # which counts from the end, and refuses others
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
        """The clients that have this name, ascending; none where nobody has."""
        sums, clients = self._by_checksum
        own = _checksum(name)
        alike = clients[np.searchsorted(sums, own, "left") : np.searchsorted(sums, own, "right")]
        return np.array([client for client in alike.tolist() if self[client] == name], np.int64)

    @cached_property
    def _by_checksum(self) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """Checksums of all names, ascending, and their clients: a table to look names up in, made
        when first needed."""
        sums = np.fromiter(map(_checksum, self), np.int64, len(self))
        clients = np.argsort(sums, kind="stable")
        return sums[clients], clients

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self.positions(name)) > 0

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, ClientNames):
            return np.array_equal(self.offsets, other.offsets) and np.array_equal(
                self.text, other.text
            )
        if not isinstance(other, (tuple, list)):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == name for mine, name in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self))  # that of the tuple which it equals

    def __repr__(self) -> str:
        return f"ClientNames({listed(self)})"


def _text(name: object) -> str:
    return _decoded(name) if isinstance(name, bytes) else str(name)


def _decoded(letters: bytes) -> str:
    try:
        return letters.decode(*_CODING)
    except UnicodeDecodeError:  # of a damaged file
        return letters.decode(errors="replace")


def _checksum(name: str) -> int:
    return crc32(name.encode(*_CODING))
