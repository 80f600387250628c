"""The class ``FederatedData``: the samples of all clients in common arrays, and the rows that
belong to each client."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import BackboneFeatures
from fedkin.core.object_repr import count, html_table, listed
from fedkin.core.plain import plain
from fedkin.core.randomness import Stream
from fedkin.data.client_names import ClientNames
from fedkin.data.federated_checks import check_federation, check_owners
from fedkin.data.label_statistics import refitted
from fedkin.data.packed_files import PackedFiles
from fedkin.data.patients import Patients
from fedkin.data.ragged import Ragged as Ragged
from fedkin.data.table_scaling import rescaled
from fedkin.data.table_transform import NONE, TableTransform
from fedkin.data.units import units_of
from fedkin.data.user_arrays import unmasked
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.loss import targets_of
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

SPLITS = ("train", "validation", "test")
_COUNTED_AT_ONCE = 2**20  # samples whose labels are counted at a time


@dataclass(frozen=True)
class FederatedData:
    """A federation's data on one machine: samples of all N clients, and which of them (rows of
    ``x`` and ``y``) each client has.

    A row (sample) may belong to two clients, as in the published FEMNIST split.

    Attributes:
        name: name of the data set.
        x: features of all M samples, float32; or word indices of text [M, L], integers.
        y: labels 0 .. classes-1. For other task types than classes: float32 numbers [M], or columns
            [M q] with the label, its offset and, if samples are weighted, its weight. In float64:
            labels that a server has not scaled yet, with exposures in place of offsets.
        classes: number of classes C; for other task types, number of outputs of a model.
        train: rows of each client's training samples.
        test: rows of each client's test samples.
        true_clusters: true cluster of each client; None if it is unknown.
        client_names: names of the N clients, as ``ClientNames``; None without names.
        vocabulary: the words of a text: number i in x stands for word i. None for data other than
            text.
        vectors: vectors of the words, which are not trained; None if there are none.
        validation: rows of each client's validation samples, used for model selection; None if
            there is no such split.
        label_names: names of the classes 0, 1, ..; None if labels are numbers.
        feature_names: names of the d feature columns of a table.
        columns: for a table: the names of its "label" column and, if it has one, its "client"
            column.
        from_uint8: whether x were uint8 pixels, which have been divided by 255.
        transform: for a table: how its columns became x. None if they kept their values, and for
            other data.
        task_type: what the labels are: classes, numbers, counts, ...
        client_columns: facts about clients, such as their sector: a value for each client, by name.
        features_of: for samples that ``fk.models.features`` computed: from which backbone; None for
            other data.
        tokenizer: digest of the tokenizer that has made x of texts; empty for other data.
        unit: the unit of each sample, such as a patient with several visits, as a number. All
            samples of a client's unit are in one part. None if each sample is a unit.
        patients: for risk sets: the patients from whom they are made; None if they are not kept.
        packed: the files of packed data (``fedkin.data.pack``), from which the arrays are mapped;
            None for data in memory.

    Raises:
        DataError: an array has a wrong type, inconsistent shapes, NaN or infinity, or a client has
            no training sample.
    """

    name: str
    x: Shaped[np.ndarray, "M ..."]
    y: Int[np.ndarray, "M"] | Float[np.ndarray, "M ..."]
    classes: int
    train: Ragged
    test: Ragged
    true_clusters: Int[np.ndarray, "N"] | None = None
    client_names: Sequence[str] | None = None
    vocabulary: tuple[str, ...] | None = None
    vectors: Float32[np.ndarray, "V D"] | None = None
    validation: Ragged | None = None
    label_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    columns: dict[str, str] | None = None
    from_uint8: bool = False
    transform: TableTransform | None = None
    task_type: TaskType = CLASSIFICATION
    client_columns: Mapping[str, tuple[str, ...]] | None = None
    patients: Patients | None = None
    features_of: BackboneFeatures | None = None
    tokenizer: str = ""
    unit: Int[np.ndarray, "M"] | None = None
    # Not a field of the dataclass: the class method ``trusted`` sets it on an instance.
    packed: ClassVar[PackedFiles | None] = None

    def __post_init__(self) -> None:
        if self.client_names is not None:
            object.__setattr__(self, "client_names", ClientNames.of(self.client_names))
        for name in ("x", "y", "true_clusters"):
            object.__setattr__(self, name, unmasked(getattr(self, name), self.name, name))
        check_federation(self)

    @classmethod
    def trusted(cls, packed: PackedFiles, **fields: Any) -> FederatedData:
        """Federated data from packed files, whose samples were checked at packing.

        Only the index of the clients' rows is checked, and ``x`` is not read.

        Args:
            packed: the files of the data.
            fields: fields of this class.
        """
        data = object.__new__(cls)
        for field in dataclasses.fields(cls):
            if field.default is not dataclasses.MISSING:
                data.__dict__[field.name] = field.default
        data.__dict__.update(fields)
        data.__dict__["packed"] = packed
        check_owners(data)
        return data

    def __repr__(self) -> str:
        facts = self._facts()
        samples = f"{facts['samples']}, {facts['samples per client']} per client"
        labels = f"{facts['features']}; {facts['labels']}"
        if "true clusters" in facts:
            labels += f"; {facts['true clusters']}"
        return f"FederatedData {self.name!r}: {facts['clients']}\n  {samples}\n  {labels}"

    def _repr_html_(self) -> str:
        return html_table(self.name, self._facts())

    def _facts(self) -> dict[str, str]:
        """The main properties of the federation as text, by name, for its ``repr``."""
        clients = count(self.clients, "client")
        if self.client_names:
            clients += f" ({listed(self.client_names)})"
        untested = int((self.test.sizes == 0).sum())
        if untested:
            clients += f"; {untested:,} without a test sample"

        by_split = {split: self.part(split).sizes for split in self.splits}
        totals = ", ".join(f"{int(part.sum()):,} {split}" for split, part in by_split.items())
        sizes = np.sum(list(by_split.values()), axis=0)
        extremes = sorted({int(sizes.min()), int(sizes.max())}) if len(sizes) else []

        shape = " x ".join(map(str, self.x.shape[1:]))
        kind = listed(self.feature_names) if self.feature_names else self.x.dtype
        if self.transform is not None and self.transform.kind != NONE:
            kind = f"{kind}; scaled: {self.transform.kind}"
        facts = {
            "clients": clients,
            "samples": f"{count(int(sizes.sum()), 'sample')} ({totals})",
            "samples per client": " to ".join(f"{n:,}" for n in extremes),
            "features": f"{shape} features ({kind})",
            "labels": self._labels(),
        }
        if self.true_clusters is not None:
            facts["true clusters"] = count(len(np.unique(self.true_clusters)), "true cluster")
        return facts

    def _labels(self) -> str:
        """The labels in words: the classes with their names, or the task type and its loss."""
        if self.task_type.loss is not None:
            return f"labels of {self.task_type.name}, loss {self.task_type.loss.name}"
        classes = count(self.classes, "class", "classes")
        return f"{classes} ({listed(self.label_names)})" if self.label_names else classes

    @property
    def clients(self) -> int:
        """The number of clients N."""
        return len(self.train)

    def label_counts(
        self, split: str = "train", clients: Int[np.ndarray, "n"] | None = None
    ) -> Int[np.ndarray, "n C"]:
        """Number of samples of each class that each of these clients has.

        Args:
            split: ``train``, ``test`` or ``validation``.
            clients: indices of n clients; None for all.
        """
        if self.task_type.loss is not None:
            raise DataError(
                f"{self.name}: labels of {self.task_type.name} are numbers, so there are no "
                "classes to count"
            )
        part = self.part(split)
        every = np.arange(len(part)) if clients is None else clients
        # Some clients at a time, since several numbers for each of their samples are in memory.
        portions = np.array_split(every, 1 + part.sizes[every].sum() // _COUNTED_AT_ONCE)
        return np.concatenate([self.class_counts(part.select(some)) for some in portions])

    def class_counts(self, part: Ragged) -> Int[np.ndarray, "n C"]:
        """Number of samples of each class that each of the n clients of an index has, which need
        not be a split of these data."""
        # With uint64 labels, the sum below would be a float.
        labels = self.y[part.rows].astype(np.int64)
        cells = part.owners() * self.classes + labels
        counts = np.bincount(cells, minlength=len(part) * self.classes)
        return counts.reshape(len(part), self.classes)

    def part(self, split: str) -> Ragged:
        """The rows of ``x`` and ``y`` (samples) that each client has in one split: ``train``,
        ``test`` or ``validation``.

        Raises:
            DataError: the data have no such split.
        """
        if self.patients is not None and (rows := self.patients.samples_of(split)) is not None:
            return rows
        if split not in SPLITS:
            raise DataError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
        if split == "validation" and self.validation is None:
            raise DataError(
                f"{self.name} has no validation split: make one with data.with_validation(0.1), or "
                "in a configuration with data.validation = 0.1"
            )
        return getattr(self, split)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of these data, in the order of ``SPLITS``."""
        if self.validation is None:
            return tuple(split for split in SPLITS if split != "validation")
        return SPLITS

    @property
    def scored_split(self) -> str:
        """The split that selects rounds, settings and methods.

        It is ``validation`` if these data have it, otherwise ``test``.
        """
        return "test" if self.validation is None else "validation"

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes. Those of survival data are places in risk sets."""
        return self.task_type == CLASSIFICATION

    @property
    def labels(self) -> Shaped[np.ndarray, "M"]:
        """The label of each sample, without offsets and weights: a class, or a scaled number."""
        return targets_of(self.y).label

    def with_validation(
        self, fraction: float | int, seed: int = 0, *, stratified: bool = True
    ) -> FederatedData:
        """The same federation, with a part of each client's training samples as validation samples.

        ceil(fraction n) of n training samples become validation samples, but at most n - 1. So
        every client with at least two training samples has a validation sample. The draw is
        stratified: a class with n_c samples gets a share n_c / n of the validation samples, rounded
        up or down. Test samples do not change. With units, n is the number of a client's units, and
        a unit counts with its first label. The columns of a table, and labels that are numbers,
        are scaled by the remaining training samples, unless their statistics were given.

        A client's stratified validation samples have the mean label of its training samples, which
        its new samples do not have. So own intercepts and own models look better on them than they
        are. To choose between these and a shared model, set ``stratified=False``.

        Args:
            fraction: share of validation samples, above 0 and below 1.
            seed: seed of the draw; each client has a separate random stream.
            stratified: whether each class has its share of the validation samples, and labels that
                are numbers a share from each range. False for a random draw.

        Raises:
            ConfigError: fraction or seed is invalid, or the data are forecasts or survival times.
            DataError: the data have a validation split already, or the remaining counts are all 0.
        """
        fraction = plain(fraction)
        seed = plain(seed)
        check_validation(fraction)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"seed must be an integer of at least 0, got {seed!r}")
        if self.task_type.by_time:
            raise ConfigError(
                f"{self.name}: validation samples drawn at random would be from the same time as "
                "the training samples of a forecast; divide by date instead of data.validation: "
                "data.validation_from = '2017-01'"
            )
        if isinstance(self.task_type, Survival):
            raise ConfigError(
                f"{self.name}: validation samples of survival data would be risk sets of training "
                "events; leave out data.validation, and to choose settings, make data from the "
                "training patients alone, which are divided into training and test patients again"
            )
        if self.validation is not None:
            raise DataError(
                f"{self.name} already has a validation split; leave out the fraction {fraction}"
            )
        # A stream for each client, so that the draw of one does not depend on the others.
        stream = Stream(seed, purpose="data/validation")
        # With equal labels, a stratified draw is a random one.
        strata = self.labels if stratified else np.zeros(len(self.y))
        train = []
        validation = []
        for client in range(self.clients):
            rows = self.train[client]
            # Numbers are sorted by value, so the draw takes its share of each range.
            rng = stream.client(client)
            if self.unit is None:
                chosen = _stratified(strata[rows], fraction, rng)
            else:
                units = units_of(self.unit, rows)
                of_units = _stratified(strata[rows[units.first]], fraction, rng)
                chosen = of_units[units.of_sample]
            train.append(rows[~chosen])
            validation.append(rows[chosen])
        divided = self.with_rows(Ragged.of(train), self.test, validation=Ragged.of(validation))
        scaled = rescaled(self.x, divided.train.rows, self.transform)
        task_type, y = refitted(self.task_type, self.y, divided.train.rows, self.name)
        if scaled.transform is self.transform and task_type is self.task_type:
            return divided
        return dataclasses.replace(
            divided, x=scaled.x, transform=scaled.transform, y=y, task_type=task_type
        )

    def select(self, clients: Int[np.ndarray, "n"]) -> FederatedData:
        """The data of these clients, in this order: all splits and names, but no true clusters."""
        names = None
        if self.client_names is not None:
            names = ClientNames.of(self.client_names).select(clients)
        # A shallow copy is needed, since ``with_rows`` cannot remove a field.
        bare = copy.copy(self)
        facts = self.client_columns
        if facts is not None:
            facts = {name: tuple(values[c] for c in clients) for name, values in facts.items()}
        bare.__dict__.update(true_clusters=None, client_names=names, client_columns=facts)
        if self.patients is not None:
            bare.__dict__["patients"] = self.patients.select(clients)
        validation = None if self.validation is None else self.validation.select(clients)
        return bare.with_rows(
            train=self.train.select(clients),
            test=self.test.select(clients),
            validation=validation,
        )

    def with_task_type(self, task_type: TaskType) -> FederatedData:
        """The same federation, with another constant model of its labels in the task type.

        Samples are not checked again. Packed data stay packed, since the constant model is not part
        of their digest.

        Args:
            task_type: the task type, with the same task and loss.
        """
        data = copy.copy(self)
        data.__dict__["task_type"] = task_type
        return data

    def with_rows(
        self,
        train: Ragged,
        test: Ragged,
        true_clusters: Int[np.ndarray, "N"] | None = None,
        x: Shaped[np.ndarray, "M ..."] | None = None,
        y: Shaped[np.ndarray, "M ..."] | None = None,
        validation: Ragged | None = None,
        unit: Int[np.ndarray, "M"] | None = None,
    ) -> FederatedData:
        """The same federation with other rows (samples) for each client. None keeps the current
        value.

        The rows are checked, but the samples are not, because a check reads all of ``x``. That
        takes too long for data that change in every round. The caller must check new samples.

        Raises:
            DataError: a row is not among the samples, splits have different numbers of clients,
                true clusters do not fit the clients, or a client has no training sample.
        """
        values = {
            "train": train,
            "test": test,
            "true_clusters": true_clusters,
            "x": x,
            "y": y,
            "validation": validation,
            "unit": unit,
        }
        # dataclasses.replace would check the samples.
        data = copy.copy(self)
        # The digest of the packed files is not the digest of the new data.
        data.__dict__.pop("packed", None)
        data.__dict__.update({name: value for name, value in values.items() if value is not None})
        check_owners(data)
        return data


def check_validation(fraction: Any) -> None:
    """Raise ConfigError for a fraction of validation samples that is not between 0 and 1."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise ConfigError(f"validation must be a fraction above 0 and below 1, got {fraction!r}")


def _stratified(
    labels: Shaped[np.ndarray, "n"], fraction: float, rng: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Draw a share of a client's samples, stratified by class, and return it as a mask.

    The samples are sorted by class, in random order within a class. The draw takes samples at equal
    distances, so every class gets its share, rounded up or down.
    """
    n = len(labels)
    # The product is rounded first, since 0.07 x 100 is 7.000000000000001.
    count = min(n - 1, int(np.ceil(np.round(fraction * n, 6))))
    order = np.lexsort((rng.random(n), labels))
    positions = ((np.arange(count) + rng.random()) * n / max(count, 1)).astype(np.int64)
    chosen = np.zeros(n, bool)
    chosen[order[positions]] = True
    return chosen
