"""The class ``Ragged``: the rows of each client's samples in common arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Ragged:
    """An index: for each of N clients, the rows of its samples in a federation's arrays.

    Clients may have different numbers of rows (a ragged array).

    Attributes:
        rows: the rows of all clients, one client after another.
        offsets: client i has ``rows[offsets[i]:offsets[i+1]]``.
    """

    rows: Int[np.ndarray, "S"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Ragged:
        """An index that is made from an array of sample rows for each client."""
        # The empty array comes first, so that there is an array even without clients.
        arrays = [np.zeros(0, np.int64), *(np.asarray(array, np.int64) for array in lists)]
        return cls(np.concatenate(arrays), _offsets([len(array) for array in lists]))

    @classmethod
    def empty(cls, sizes: Int[np.ndarray, "N"]) -> Ragged:
        """An index with these numbers of samples per client, whose rows are written later."""
        offsets = _offsets(sizes)
        return cls(np.empty(offsets[-1], np.int64), offsets)

    @classmethod
    def consecutive(cls, sizes: Int[np.ndarray, "N"]) -> Ragged:
        """An index of samples that are stored client by client."""
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
        """For each entry of ``rows``, the client to whom it belongs."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def owner_of_rows(self, rows: int) -> Int[np.ndarray, "M"]:
        """For each row of arrays with so many rows, the client to whom it belongs; -1 for a row of
        no client."""
        owner = np.full(rows, -1)
        owner[self.rows] = self.owners()
        return owner

    def select(self, clients: Int[np.ndarray, "n"]) -> Ragged:
        """The index of these clients, in this order; a client may occur twice."""
        sizes = self.sizes[clients]
        offsets = _offsets(sizes)
        # Distance of each entry from its present position.
        shift = np.repeat(self.offsets[clients] - offsets[:-1], sizes)
        return Ragged(self.rows[shift + np.arange(offsets[-1])], offsets)


def _offsets(sizes: Sequence[int] | Int[np.ndarray, "N"]) -> Int[np.ndarray, "N_plus_1"]:
    """The position in ``rows`` at which each client's samples begin, and after these the total
    number of samples; computed from the number of samples per client."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
