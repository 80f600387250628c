"""Copies of large tables, such as the models of all clients, in memory that is used again.

A method's state is never changed in place, so a round that changes a few rows of a table copies the
table. The system fills new memory with zeros, which takes longer than the copy. Here a copy takes
the memory of an earlier copy, if no array refers to it any more.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any

import numpy as np
from jaxtyping import Shaped

# Copies below this number of bytes are made in new memory, which NumPy provides as fast.
_SMALLEST = 2**23


class _SpareMemory:
    """The memory of a copy that no longer exists. The later copies of a table have one in common,
    so it is released together with the last of them."""

    def __init__(self) -> None:
        self.memory: Any = None  # a NumPy array of bytes; None: there is none

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Shaped[np.ndarray, "..."]:
        """An array with any content, in the spare memory if it suffices."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory: Any = self.memory
        self.memory = None
        if memory is None or memory.nbytes < size:
            # With room for more rows. The system provides memory only where something is written.
            memory = np.empty(2 ** (size - 1).bit_length(), np.uint8)
        # The array and all its views refer to the owner. Without it they are gone.
        owner: Any = (ctypes.c_char * size).from_buffer(memory)
        owner.spare = self
        weakref.finalize(owner, _give_back, weakref.ref(self), memory).atexit = False
        return np.frombuffer(owner, dtype).reshape(shape)


def appended(
    table: Shaped[np.ndarray, "n ..."], rows: Shaped[np.ndarray, "m ..."]
) -> Shaped[np.ndarray, "n+m ..."]:
    """A copy of a table with more rows at its end, as ``np.concatenate`` makes it.

    Args:
        table: rows, possibly a result of this function.
        rows: the additional rows, of the table's type; there may be none.
    """
    if table.nbytes + rows.nbytes < _SMALLEST or table.dtype != rows.dtype:
        return np.concatenate([table, rows])
    spare = _spare_of(table) or _SpareMemory()
    copy = spare.empty((len(table) + len(rows), *table.shape[1:]), table.dtype)
    copy[: len(table)] = table
    copy[len(table) :] = rows
    return copy


def _spare_of(table: np.ndarray) -> _SpareMemory | None:
    """The spare memory of the copies to which an array belongs; None for an array of other
    origin."""
    base: Any = table
    while isinstance(base, np.ndarray):
        base = base.base
    return getattr(base.obj if isinstance(base, memoryview) else base, "spare", None)


def _give_back(reference: weakref.ref[_SpareMemory], memory: Any) -> None:
    """Keep the memory of a copy for a later one, if there may be one.

    Args:
        reference: the spare memory of the copies.
        memory: the memory, as a NumPy array of bytes.
    """
    spare = reference()
    if spare is not None and (spare.memory is None or spare.memory.nbytes < memory.nbytes):
        spare.memory = memory
