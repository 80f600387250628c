"""Federated data: flat arrays of samples, and an index of the rows of each client."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int, Shaped

from fedkin.core.errors import DataError


@dataclass(frozen=True)
class Ragged:
    """The index of samples per client, a ragged array: client i has the rows ``rows[offsets[i]:offsets[i+1]]``."""

    rows: Int[np.ndarray, "S"]
    offsets: Int[np.ndarray, "N_plus_1"]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Ragged:
        """An index from one array of rows per client."""
        sizes = [len(a) for a in lists]
        rows = np.concatenate([np.asarray(a, np.int64) for a in lists]) if sizes else np.zeros(0, np.int64)
        return cls(rows.astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: int) -> Int[np.ndarray, "s"]:
        return self.rows[self.offsets[client] : self.offsets[client + 1]]

    @property
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


@dataclass(frozen=True)
class FederatedData:
    """A federation's data on one machine: samples of all clients, and the rows that each client owns. A row may have
    two owners, as in the published FEMNIST split.

    Raises DataError where arrays have another type than below, do not fit each other, hold NaN or infinity, or leave a
    client without a training sample.
    """

    name: str
    x: Shaped[np.ndarray, "M ..."]  # float32 features, or integers for text
    y: Int[np.ndarray, "M"]  # labels 0 .. classes-1
    classes: int
    train: Ragged
    test: Ragged
    true_clusters: Int[np.ndarray, "N"] | None = None  # true cluster of each client, where it is known
    client_names: tuple[str, ...] | None = None
    vocabulary: tuple[str, ...] | None = None  # of text: x holds numbers of these words, [M L]
    vectors: Float32[np.ndarray, "V D"] | None = None  # one for each word of the vocabulary, not trained

    def __post_init__(self) -> None:
        self._check()

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.train)

    def label_counts(self, split: str = "train", clients: Int[np.ndarray, "n"] | None = None) -> Int[np.ndarray, "n C"]:
        """Number of samples of each class that each of these clients has; None for all clients."""
        part = self.part(split) if clients is None else self.part(split).select(clients)
        labels = self.y[part.rows].astype(np.int64)  # uint64 would make the sum a float
        flat = np.bincount(part.owners() * self.classes + labels, minlength=len(part) * self.classes)
        return flat.reshape(len(part), self.classes)

    def part(self, split: str) -> Ragged:
        """The index of one split, ``train`` or ``test``."""
        if split not in ("train", "test"):
            raise DataError(f"split must be 'train' or 'test', got {split!r}")
        return self.train if split == "train" else self.test

    def with_rows(
        self,
        train: Ragged,
        test: Ragged,
        true_clusters: Int[np.ndarray, "N"] | None = None,
        x: Shaped[np.ndarray, "M ..."] | None = None,
        y: Int[np.ndarray, "M"] | None = None,
    ) -> FederatedData:
        """The same federation with other rows per client; None keeps the present value.

        The index is checked, samples are not: that would read all of ``x``, and data may change in every round. The
        caller answers for new samples. Raises DataError as above.
        """
        values = {"train": train, "test": test, "true_clusters": true_clusters, "x": x, "y": y}
        data = copy.copy(self)  # dataclasses.replace would check the samples
        data.__dict__.update({name: value for name, value in values.items() if value is not None})
        data._check_owners()
        return data

    def _check(self) -> None:
        """Types too: annotations are checked in tests only, and NumPy would truncate 1.5 to the label 1."""
        self._check_samples()
        self._check_vocabulary()
        self._check_owners()

    def _check_owners(self) -> None:
        self._check_part("train")
        self._check_part("test")
        self._check_clients()

    def _check_samples(self) -> None:
        if not _is_array(self.x, "biuf") or not self.x.ndim:
            raise DataError(f"{self.name}: x must be numbers in an array [M, ...], got {_type_of(self.x)}")
        if not _is_array(self.y, "iu", 1):
            raise DataError(f"{self.name}: labels must be integers in an array [M], got {_type_of(self.y)}")
        if not isinstance(self.classes, (int, np.integer)) or self.classes < 1:
            raise DataError(f"{self.name}: classes must be an integer of at least 1, got {self.classes!r}")
        if len(self.x) != len(self.y):
            raise DataError(f"{self.name}: {len(self.x)} samples but {len(self.y)} labels")
        if len(self.y) and not 0 <= int(self.y.min()) <= int(self.y.max()) < self.classes:
            raise DataError(f"{self.name}: labels must be 0..{self.classes - 1}, got {self.y.min()}..{self.y.max()}")
        if np.issubdtype(self.x.dtype, np.floating) and not np.isfinite(self.x).all():
            bad = int(np.flatnonzero(~np.isfinite(self.x.reshape(len(self.x), -1)).all(axis=1))[0])
            raise DataError(f"{self.name}: sample {bad} holds NaN or an infinite feature")

    def _check_vocabulary(self) -> None:
        if self.vocabulary is None:
            if self.vectors is not None:
                raise DataError(f"{self.name}: vectors belong to the words of a vocabulary, and there is none")
            return
        V = len(self.vocabulary)
        if not _is_array(self.x, "iu", 2) or (self.x.size and not 0 <= int(self.x.min()) <= int(self.x.max()) < V):
            raise DataError(f"{self.name}: x of text must be word numbers 0..{V - 1} in an array [M, L]")
        if self.vectors is not None and not (_is_array(self.vectors, "f", 2) and len(self.vectors) == V):
            raise DataError(f"{self.name}: vectors must be an array [{V}, D] of floats, got {_type_of(self.vectors)}")

    def _check_part(self, split: str) -> None:
        part = self.part(split)
        if not isinstance(part, Ragged):
            raise DataError(f"{self.name}: {split} must be a Ragged (Ragged.of makes one), got {_type_of(part)}")
        for name, array in (("rows", part.rows), ("offsets", part.offsets)):
            if not _is_array(array, "i", 1):
                raise DataError(f"{self.name}: {split}.{name} must be signed integers [n], got {_type_of(array)}")
        rows, offsets = part.rows, part.offsets
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(rows) or (np.diff(offsets) < 0).any():
            raise DataError(
                f"{self.name}: {split}.offsets must rise from 0 to {len(rows)}, the number of rows; got {offsets}"
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.y):
            raise DataError(f"{self.name}: a client owns a sample row outside 0..{len(self.y) - 1}")

    def _check_clients(self) -> None:
        N = len(self.train)
        if N != len(self.test):
            raise DataError(f"{self.name}: train names {N} clients, test names {len(self.test)}")
        if self.true_clusters is not None and not (
            _is_array(self.true_clusters, "i", 1) and self.true_clusters.min(initial=0) >= 0
        ):
            raise DataError(
                f"{self.name}: true_clusters must be integers from 0 in an array [N], "
                f"got {_type_of(self.true_clusters)}"
            )
        for name, each in (("true_clusters", self.true_clusters), ("client_names", self.client_names)):
            if each is not None and len(each) != N:
                raise DataError(f"{self.name}: {name} must have one entry for each of {N} clients, got {len(each)}")
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            raise DataError(f"{self.name}: client {empty[0]} has no training sample ({len(empty)} such clients)")


def _is_array(value: object, kinds: str, ndim: int | None = None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and ndim in (None, value.ndim)


def _type_of(value: object) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    least = f", from {value.min()}" if value.dtype.kind == "i" and value.size else ""
    return f"{value.dtype} of shape {value.shape}{least}"
