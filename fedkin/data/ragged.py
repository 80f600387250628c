"""The index of samples per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Ragged:
    """The index of samples per client, a ragged array: client i has the rows
    ``rows[offsets[i]:offsets[i+1]]``."""

    rows: Int[np.ndarray, "S"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Ragged:
        """An index from one array of rows per client."""
        sizes = [len(a) for a in lists]
        rows = (
            np.concatenate([np.asarray(a, np.int64) for a in lists])
            if sizes
            else np.zeros(0, np.int64)
        )
        return cls(rows.astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @classmethod
    def empty(cls, sizes: Int[np.ndarray, "N"]) -> Ragged:
        """An index of so many samples per client, whose rows are still to be written."""
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(np.empty(offsets[-1], np.int64), offsets)

    @classmethod
    def consecutive(cls, sizes: Int[np.ndarray, "N"]) -> Ragged:
        """The index of samples that lie one client after another."""
        made = cls.empty(sizes)
        made.rows[:] = np.arange(len(made.rows))
        return made

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> Int[np.ndarray, "s"]:
        return self.rows[self.offsets[client] : self.offsets[client + 1]]

    @cached_property
    def sizes(self) -> Int[np.ndarray, "N"]:
        """Number of samples of each client."""
        return np.diff(self.offsets)

    def owners(self) -> Int[np.ndarray, "S"]:
        """The client of each entry of ``rows``."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def select(self, clients: Int[np.ndarray, "n"]) -> Ragged:
        """The index of these clients, in this order; a client may occur twice."""
        sizes = self.sizes[clients]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        start = np.repeat(self.offsets[clients] - offsets[:-1], sizes)
        return Ragged(self.rows[start + np.arange(offsets[-1])], offsets)
