"""Who has what: flat arrays of samples, and for each client which rows are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.errors import DataError


@dataclass(frozen=True)
class Ragged:
    """One list of sample rows per client, end to end: client i has ``rows[offsets[i]:offsets[i+1]]``."""

    rows: Int[np.ndarray, "S"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Ragged:
        """From one array of rows per client."""
        sizes = [len(a) for a in lists]
        rows = np.concatenate([np.asarray(a, np.int64) for a in lists]) if sizes else np.zeros(0, np.int64)
        return cls(rows.astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> Int[np.ndarray, "s"]:
        return self.rows[self.offsets[client] : self.offsets[client + 1]]

    @property
    def sizes(self) -> Int[np.ndarray, "N"]:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class FederatedData:
    """A federation's data on one machine. Samples lie flat; clients own rows of them (the same row may have two
    owners, as in the published FEMNIST split)."""

    name: str
    x: Shaped[np.ndarray, "M ..."]  # float32 features, or integers for text
    y: Int[np.ndarray, "M"]  # labels 0 .. classes-1
    classes: int
    train: Ragged
    test: Ragged
    truth: Int[np.ndarray, "N"] | None = None  # true cluster of each client, where it is known
    client_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._check()

    @property
    def clients(self) -> int:
        """N."""
        return len(self.train)

    def label_counts(self, split: str = "train") -> Int[np.ndarray, "N C"]:
        """How many samples of each class each client has."""
        part = self.part(split)
        owner = np.repeat(np.arange(self.clients), part.sizes)
        flat = np.bincount(owner * self.classes + self.y[part.rows], minlength=self.clients * self.classes)
        return flat.reshape(self.clients, self.classes)

    def part(self, split: str) -> Ragged:
        """The rows of one split, ``train`` or ``test``."""
        if split not in ("train", "test"):
            raise DataError(f"split must be 'train' or 'test', got {split!r}")
        return self.train if split == "train" else self.test

    def _check(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(f"{self.name}: {len(self.x)} samples but {len(self.y)} labels")
        if len(self.train) != len(self.test):
            raise DataError(f"{self.name}: train names {len(self.train)} clients, test names {len(self.test)}")
        if len(self.y) and not 0 <= int(self.y.min()) <= int(self.y.max()) < self.classes:
            raise DataError(f"{self.name}: labels must be 0..{self.classes - 1}, got {self.y.min()}..{self.y.max()}")
        for split in (self.train, self.test):
            if len(split.rows) and not 0 <= int(split.rows.min()) <= int(split.rows.max()) < len(self.y):
                raise DataError(f"{self.name}: a client owns a sample row outside 0..{len(self.y) - 1}")
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            raise DataError(f"{self.name}: client {empty[0]} has no training sample ({len(empty)} such clients)")
        if np.issubdtype(self.x.dtype, np.floating) and not np.isfinite(self.x).all():
            bad = int(np.flatnonzero(~np.isfinite(self.x.reshape(len(self.x), -1)).all(axis=1))[0])
            raise DataError(f"{self.name}: sample {bad} holds NaN or an infinite feature")
