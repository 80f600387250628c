"""A table of one row per client whose versions share the rows that they have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped


class SharedRows:
    """An immutable table; a new version of it costs the rows that are new, not a copy of all.

    A state is never changed in place. A method that stores a model of every client would copy N x P numbers in each
    round for the few that the round made. Here only references are copied, and rows that have always been equal, such
    as the start of all clients, are in memory once. It reads as an array does: ``np.asarray(table)``, ``table[index]``.
    """

    def __init__(self, rows: Iterable[Shaped[np.ndarray, "p"]]) -> None:
        """A table of given rows, which nobody may change any more."""
        table = list(rows)
        self._rows = np.empty(len(table), object)
        for i, row in enumerate(table):  # an assignment of all would make a matrix of them
            self._rows[i] = row

    @staticmethod
    def of(table: Shaped[np.ndarray, "N p"] | SharedRows) -> SharedRows:
        """The table as it is, or one with the rows of an array, copied."""
        return table if isinstance(table, SharedRows) else SharedRows(np.array(row) for row in np.asarray(table))

    def replaced(self, index: Int[np.ndarray, "n"], rows: Shaped[np.ndarray, "n p"]) -> SharedRows:
        """A new version with other rows.

        Args:
            index: of the rows that are new.
            rows: in their place; they are copied.
        """
        version = SharedRows([])
        version._rows = self._rows.copy()
        for i, row in zip(index, rows, strict=True):
            version._rows[i] = np.array(row)
        return version

    def distinct(self, index: Int[np.ndarray, "n"]) -> tuple[Shaped[np.ndarray, "d p"], Int[np.ndarray, "n"]]:
        """Some rows without those that are in memory once for several of them, and where each of the n is among these:
        what is computed of the first serves all."""
        _, first, inverse = np.unique([id(row) for row in self._rows[index]], return_index=True, return_inverse=True)
        return self[index[first]], inverse

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return (len(self._rows), *(self._rows[0].shape if len(self._rows) else (0,)))

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of an array."""
        return self._rows[0].dtype if len(self._rows) else np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Shaped[np.ndarray, "..."]:
        """One row, or an array of several where the index is one of several."""
        chosen = self._rows[index]
        if np.ndim(index) == 0:
            return chosen
        return np.stack(list(chosen)) if len(chosen) else np.empty((0, *self.shape[1:]), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = self[np.arange(len(self))]
        return whole if dtype is None else whole.astype(dtype, copy=False)
