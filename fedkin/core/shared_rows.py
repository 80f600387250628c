"""A table with one row per client (such as the client's model), whose versions share unchanged
rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped


class SharedRows:
    """An immutable table [N p] with one row per client. A new version stores only its new rows and
    shares the others.

    A method's state is never changed in place. A method that stores a model of every client in an
    array would therefore copy N x P numbers in each round, although the round changes only a few
    rows. Here only references are copied, and equal rows, such as the initial models of all
    clients, are stored once. ``table[3]`` and ``table[clients]`` are arrays, and so is
    ``np.asarray(table)``.
    """

    def __init__(self, rows: Iterable[Shaped[np.ndarray, "p"]]) -> None:
        """Make a table of rows [p]. The rows become read-only."""
        table = list(rows)
        self._rows = np.empty(len(table), object)
        # Assigned one at a time: assigning all rows at once would make a matrix of them.
        for i, row in enumerate(table):
            row.setflags(write=False)
            self._rows[i] = row

    @staticmethod
    def of(table: Shaped[np.ndarray, "N p"] | SharedRows) -> SharedRows:
        """A table with copies of an array's rows. Equal rows are stored once. A ``SharedRows`` is
        returned unchanged."""
        if isinstance(table, SharedRows):
            return table
        copies: dict[bytes, np.ndarray] = {}
        keys = [hashlib.sha256(row.tobytes()).digest() for row in table]
        return SharedRows(
            copies.setdefault(key, np.array(row)) for key, row in zip(keys, table, strict=True)
        )

    def replaced(self, index: Int[np.ndarray, "n"], rows: Shaped[np.ndarray, "n p"]) -> SharedRows:
        """A new version of the table with some rows replaced.

        Args:
            index: indices of the replaced rows.
            rows: their new values. They are copied and converted to the table's type.
        """
        # The old version's rows are read-only already, so ``__init__`` need not handle them again.
        version = SharedRows([])
        version._rows = self._rows.copy()
        for i, row in zip(index, rows, strict=True):
            version._rows[i] = np.array(row, self.dtype)
            version._rows[i].setflags(write=False)
        return version

    def distinct(
        self, index: Int[np.ndarray, "n"]
    ) -> tuple[Shaped[np.ndarray, "d p"], Int[np.ndarray, "n"]]:
        """The d distinct rows among n indexed rows of the table, and the position of each indexed
        row among them. A computation on the d distinct rows then serves all n rows."""
        # Shared rows are the same object, so rows need not be compared number by number.
        _, first, inverse = np.unique(
            [id(row) for row in self._rows[index]], return_index=True, return_inverse=True
        )
        return self[index[first]], inverse

    @property
    def shape(self) -> tuple[int, ...]:
        """The table's shape (N, p), as for an array."""
        return (len(self._rows), *(self._rows[0].shape if len(self._rows) else (0,)))

    @property
    def ndim(self) -> int:
        """The table's number of axes, as for an array."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The rows' NumPy type."""
        return self._rows[0].dtype if len(self._rows) else np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Shaped[np.ndarray, "..."]:
        """One row of the table, or an array of several rows. The index is a number, a slice, or an
        array of numbers or booleans."""
        rows = np.arange(len(self))[index]
        if rows.ndim == 0:
            return self._rows[rows]
        if rows.ndim > 1:
            raise IndexError(
                f"a table of rows takes an index with one axis, got {rows.ndim}; use "
                "np.asarray(table)"
            )
        if not len(rows):
            return np.empty((0, *self.shape[1:]), self.dtype)
        return np.stack(list(self._rows[rows]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "a table of shared rows can become an array only as a copy; leave out copy=False"
            )
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)
