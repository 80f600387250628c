"""Federated data: flat arrays of samples, and an index of the rows of each client."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float32, Int, Shaped

from fedkin.core.display import client_list, count, html_table, listed
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.plain import plain
from fedkin.core.randomness import Stream
from fedkin.data.array_checks import first_not_finite, is_array, type_of
from fedkin.data.client_names import ClientNames
from fedkin.data.packed_files import PackedFiles
from fedkin.data.ragged import Ragged as Ragged
from fedkin.data.user_arrays import unmasked

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class FederatedData:
    """A federation's data on one machine: samples of all clients, and the rows that each client
    owns. A row may have two owners, as in the published FEMNIST split.

    Raises DataError where arrays have another type than below, do not fit each other, hold NaN or
    infinity, or leave a client without a training sample.
    """

    name: str
    x: Shaped[np.ndarray, "M ..."]  # float32 features, or integers for text
    y: Int[np.ndarray, "M"]  # labels 0 .. classes-1
    classes: int
    train: Ragged
    test: Ragged
    true_clusters: Int[np.ndarray, "N"] | None = (
        None  # true cluster of each client, where it is known
    )
    client_names: Sequence[str] | None = (
        None  # N, where they are known; held as a column, ``ClientNames``
    )
    vocabulary: tuple[str, ...] | None = None  # of text: x holds numbers of these words, [M L]
    vectors: Float32[np.ndarray, "V D"] | None = (
        None  # one for each word of the vocabulary, not trained
    )
    validation: Ragged | None = (
        None  # samples that choose rounds and settings; None: there is no such split
    )
    label_names: tuple[str, ...] | None = (
        None  # of the classes 0, 1, ..; None where labels are numbers
    )
    feature_names: tuple[str, ...] | None = None  # of the columns of a table [M d]
    columns: dict[str, str] | None = (
        None  # of a table: those of the "label" and, where it has one, of the "client"
    )
    from_uint8: bool = False  # whether x were uint8 pixels and are divided by 255
    packed: ClassVar[PackedFiles | None] = (
        None  # of data in memory; an instance's own: the files that it is read from
    )

    def __post_init__(self) -> None:
        if self.client_names is not None:
            object.__setattr__(self, "client_names", ClientNames.of(self.client_names))
        for name in ("x", "y", "true_clusters"):
            object.__setattr__(self, name, unmasked(getattr(self, name), self.name, name))
        self._check()

    @classmethod
    def trusted(cls, packed: PackedFiles, **fields: Any) -> FederatedData:
        """Data whose samples were checked when they were packed: only the index is, and ``x`` is
        not read.

        Args:
            packed: the files that they are in.
            fields: as of the class.
        """
        data = object.__new__(cls)
        defaults = {
            f.name: f.default
            for f in dataclasses.fields(cls)
            if f.default is not dataclasses.MISSING
        }
        data.__dict__.update({**defaults, **fields, "packed": packed})
        data._check_owners()
        return data

    def __repr__(self) -> str:
        facts = self._facts()
        samples = f"{facts['samples']}, {facts['samples per client']} per client"
        labels = f"{facts['features']}; {facts['classes']}"
        more = f"; {facts['true clusters']}" if "true clusters" in facts else ""
        return f"FederatedData {self.name!r}: {facts['clients']}\n  {samples}\n  {labels}{more}"

    def _repr_html_(self) -> str:
        return html_table(self.name, self._facts())

    def _facts(self) -> dict[str, str]:
        """What a reader wants to know first, by name."""
        sizes = np.sum([self.part(split).sizes for split in self.splits], axis=0)
        by_split = ", ".join(
            f"{int(self.part(split).sizes.sum()):,} {split}" for split in self.splits
        )
        untested = int((self.test.sizes == 0).sum())
        extremes = sorted({int(sizes.min()), int(sizes.max())}) if len(sizes) else []
        facts = {
            "clients": count(self.clients, "client")
            + (f" ({listed(self.client_names)})" if self.client_names else "")
            + (f"; {untested:,} without a test sample" if untested else ""),
            "samples": f"{count(int(sizes.sum()), 'sample')} ({by_split})",
            "samples per client": " to ".join(f"{n:,}" for n in extremes),
            "features": " x ".join(map(str, self.x.shape[1:]))
            + (
                f" features ({listed(self.feature_names)})"
                if self.feature_names
                else f" features ({self.x.dtype})"
            ),
            "classes": count(self.classes, "class", "classes")
            + (f" ({listed(self.label_names)})" if self.label_names else ""),
        }
        if self.true_clusters is not None:
            facts["true clusters"] = count(len(np.unique(self.true_clusters)), "true cluster")
        return facts

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.train)

    def label_counts(
        self, split: str = "train", clients: Int[np.ndarray, "n"] | None = None
    ) -> Int[np.ndarray, "n C"]:
        """Number of samples of each class that each of these clients has; None for all clients."""
        part = self.part(split) if clients is None else self.part(split).select(clients)
        labels = self.y[part.rows].astype(np.int64)  # uint64 would make the sum a float
        flat = np.bincount(
            part.owners() * self.classes + labels, minlength=len(part) * self.classes
        )
        return flat.reshape(len(part), self.classes)

    def part(self, split: str) -> Ragged:
        """The index of one split: ``train``, ``test``, or ``validation`` where there is one (else
        DataError)."""
        if split not in SPLITS:
            raise DataError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
        if split == "validation" and self.validation is None:
            raise DataError(
                f"{self.name} has no validation split: make one with data.with_validation(0.1), "
                "in a configuration data.validation = 0.1"
            )
        return getattr(self, split)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that there are, in the order of ``SPLITS``."""
        return tuple(
            split for split in SPLITS if split != "validation" or self.validation is not None
        )

    @property
    def scored_split(self) -> str:
        """The split by which rounds, settings and methods are chosen: ``validation`` where there is
        one, else ``test``."""
        return "test" if self.validation is None else "validation"

    def with_validation(self, fraction: float | int, seed: int = 0) -> FederatedData:
        """The same federation with a share of each client's training samples as its validation
        samples.

        Of n training samples of a client ceil(fraction n) are taken, and at most n - 1, so that
        every client with two has one to be validated on. They are drawn stratified by class: of n_c
        samples of a class that is n_c / n of them, rounded up or down. Test samples stay as they
        are.

        Args:
            fraction: above 0 and below 1.
            seed: of the draw, which is each client's own.

        Raises:
            ConfigError: not such a fraction or seed.
            DataError: the data have a validation split already.
        """
        fraction = plain(fraction)
        seed = plain(seed)
        check_validation(fraction)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"seed must be an integer from 0 up, got {seed!r}")
        if self.validation is not None:
            raise DataError(
                f"{self.name} has a validation split of its own; leave out the fraction {fraction}"
            )
        stream = Stream(seed, purpose="data/validation")
        train = []
        validation = []
        for client in range(self.clients):
            rows = self.train[client]
            chosen = _stratified(self.y[rows], fraction, stream.client(client))
            train.append(rows[~chosen])
            validation.append(rows[chosen])
        return self.with_rows(Ragged.of(train), self.test, validation=Ragged.of(validation))

    def select(self, clients: Int[np.ndarray, "n"]) -> FederatedData:
        """The samples of these clients, in this order, with all splits and names, and without true
        clusters."""
        bare = copy.copy(self)
        names = (
            None if self.client_names is None else ClientNames.of(self.client_names).select(clients)
        )
        bare.__dict__.update(true_clusters=None, client_names=names)
        parts: dict[str, Any] = {split: self.part(split).select(clients) for split in self.splits}
        return bare.with_rows(**parts)

    def with_rows(
        self,
        train: Ragged,
        test: Ragged,
        true_clusters: Int[np.ndarray, "N"] | None = None,
        x: Shaped[np.ndarray, "M ..."] | None = None,
        y: Int[np.ndarray, "M"] | None = None,
        validation: Ragged | None = None,
    ) -> FederatedData:
        """The same federation with other rows per client; None keeps the present value.

        The index is checked, samples are not: that would read all of ``x``, and data may change in
        every round. The caller answers for new samples. Raises DataError as above.
        """
        values = {"train": train, "test": test, "true_clusters": true_clusters, "x": x, "y": y}
        values["validation"] = validation
        data = copy.copy(self)  # dataclasses.replace would check the samples
        data.__dict__.pop("packed", None)  # whose digest is another
        data.__dict__.update({name: value for name, value in values.items() if value is not None})
        data._check_owners()
        return data

    def _check(self) -> None:
        """Types too: annotations are checked in tests only, and NumPy would truncate 1.5 to the
        label 1."""
        self._check_samples()
        self._check_vocabulary()
        self._check_owners()

    def _check_owners(self) -> None:
        for split in self.splits:
            self._check_part(split)
        self._check_clients()

    def _check_samples(self) -> None:
        if not is_array(self.x, "biuf") or not self.x.ndim:
            raise DataError(
                f"{self.name}: x must be numbers in an array [M, ...], got {type_of(self.x)}"
            )
        if not is_array(self.y, "iu", 1):
            raise DataError(
                f"{self.name}: labels must be integers in an array [M], got {type_of(self.y)}"
            )
        if not isinstance(self.classes, (int, np.integer)) or self.classes < 1:
            raise DataError(
                f"{self.name}: classes must be an integer of at least 1, got {self.classes!r}"
            )
        for what, names, number in (
            ("label_names", self.label_names, self.classes),
            ("feature_names", self.feature_names, self.x.shape[1] if self.x.ndim == 2 else 0),
        ):
            if names is not None and (len(names) != number or len(set(names)) != number):
                raise DataError(
                    f"{self.name}: {what} must be {number} different names, got {len(names)}: "
                    f"{listed(names)}"
                )
        if len(self.x) != len(self.y):
            raise DataError(f"{self.name}: {len(self.x)} samples but {len(self.y)} labels")
        if len(self.y) and not 0 <= int(self.y.min()) <= int(self.y.max()) < self.classes:
            raise DataError(
                f"{self.name}: labels must be 0..{self.classes - 1}, got "
                f"{self.y.min()}..{self.y.max()}"
            )
        if (
            np.issubdtype(self.x.dtype, np.floating)
            and (bad := first_not_finite(self.x)) is not None
        ):
            raise DataError(f"{self.name}: sample {bad} holds NaN or an infinite feature")

    def _check_vocabulary(self) -> None:
        if self.vocabulary is None:
            if self.vectors is not None:
                raise DataError(
                    f"{self.name}: vectors belong to the words of a vocabulary, and there is none"
                )
            return
        V = len(self.vocabulary)
        if not is_array(self.x, "iu", 2) or (
            self.x.size and not 0 <= int(self.x.min()) <= int(self.x.max()) < V
        ):
            raise DataError(
                f"{self.name}: x of text must be word numbers 0..{V - 1} in an array [M, L]"
            )
        if self.vectors is not None and not (
            is_array(self.vectors, "f", 2) and len(self.vectors) == V
        ):
            raise DataError(
                f"{self.name}: vectors must be an array [{V}, D] of floats, got "
                f"{type_of(self.vectors)}"
            )

    def _check_part(self, split: str) -> None:
        part = self.part(split)
        if not isinstance(part, Ragged):
            raise DataError(
                f"{self.name}: {split} must be a Ragged (Ragged.of makes one), got {type_of(part)}"
            )
        for name, array in (("rows", part.rows), ("offsets", part.offsets)):
            if not is_array(array, "i", 1):
                raise DataError(
                    f"{self.name}: {split}.{name} must be signed integers [n], got {type_of(array)}"
                )
        rows = part.rows
        offsets = part.offsets
        if (
            not len(offsets)
            or offsets[0] != 0
            or offsets[-1] != len(rows)
            or (np.diff(offsets) < 0).any()
        ):
            raise DataError(
                f"{self.name}: {split}.offsets must rise from 0 to {len(rows)}, the number of "
                f"rows; got {offsets}"
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.y):
            raise DataError(f"{self.name}: a client owns a sample row outside 0..{len(self.y) - 1}")

    def _check_clients(self) -> None:
        N = len(self.train)
        for split in self.splits[1:]:
            if N != len(self.part(split)):
                raise DataError(
                    f"{self.name}: train names {N} clients, {split} names {len(self.part(split))}"
                )
        if self.true_clusters is not None and not (
            is_array(self.true_clusters, "i", 1) and self.true_clusters.min(initial=0) >= 0
        ):
            raise DataError(
                f"{self.name}: true_clusters must be integers from 0 in an array [N], got "
                f"{type_of(self.true_clusters)}"
            )
        for name, each in (
            ("true_clusters", self.true_clusters),
            ("client_names", self.client_names),
        ):
            if each is not None and len(each) != N:
                raise DataError(
                    f"{self.name}: {name} must have one entry for each of {N} clients, got "
                    f"{len(each)}"
                )
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            first = client_list(empty[:1], self.client_names)
            raise DataError(
                f"{self.name}: client {first} has no training sample ({len(empty)} such clients)"
            )


def check_validation(fraction: Any) -> None:
    """Refuse (ConfigError) what is no share of the training samples that can become validation
    samples."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise ConfigError(f"validation must be a fraction above 0 and below 1, got {fraction!r}")


def _stratified(
    labels: Int[np.ndarray, "n"], fraction: float, rng: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Which of a client's samples are drawn: a systematic sample of them in the order of their
    classes, in each at random, so that every class gives its share, rounded up or down."""
    n = len(labels)
    count = min(n - 1, int(np.ceil(np.round(fraction * n, 6))))  # 0.07 x 100 is 7.000000000000001
    chosen = np.zeros(n, bool)
    order = np.lexsort((rng.random(n), labels))
    every = ((np.arange(count) + rng.random()) * n / max(count, 1)).astype(np.int64)
    chosen[order[every]] = True
    return chosen
