"""The user's samples from any source (arrays, tables, PyTorch, Hugging Face), divided over
clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.clean_features import check_numbers, clean_features
from fedkin.data.client_columns import values_by_client
from fedkin.data.client_ids import client_ids, whole_ids
from fedkin.data.client_names import ClientNames
from fedkin.data.features import Features as Features
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.label_statistics import RawLabels
from fedkin.data.label_tasks import fitted, given, read_labels
from fedkin.data.labels import LABELS, Names, encode_labels, warn_of_classes
from fedkin.data.partition import by_owner, split_train_test, split_units
from fedkin.data.partition_options import Owned, PartitionOptions
from fedkin.data.raw_tables import RawTable
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.data.series_rows import SeriesRows
from fedkin.data.split_column import split_numbers
from fedkin.data.survival_samples import PatientSamples, training_patients
from fedkin.data.table_scaling import Scaled, TableScaling
from fedkin.data.table_transform import TableTransform
from fedkin.data.units import check_whole_units, unit_numbers
from fedkin.measures.number_bins import bins_of, quantile_edges
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

_log = logging.getLogger("fedkin")
# Further roles that have a value for each sample: fields of ``OwnSamples``, and columns of tables.
ROLES = ("exposure", "weight", "event", "unit")


@dataclass(frozen=True)
class OwnSamples:
    """The user's samples before they are partitioned over clients.

    Attributes:
        place: file or name with which error messages begin.
        title: name of the data set.
        x: features [M ...]; of a table with text or missing values, its raw columns.
        labels: labels [M] of any type.
        owners: the client of each sample [M]; None if a partition divides the samples.
        owners_name: name of ``owners`` in errors, such as a column.
        split: train, test or validation for each sample [M]; None if the source has no split.
        label_names: names of the classes.
        feature_names: names of the features of a table.
        classes: number of classes C; None for the number of names, or the largest label + 1.
        integers: whether x stay integers.
        columns: for a table: the names of the columns of the label and of the client.
        scaling: for a table: how its feature columns are scaled; None for other data.
        task_type: what the labels are, without statistics; None for classes.
        task_type_is_given: whether the task type has statistics already, such as those of a run.
        label_scale_from: known statistics of the labels, as of ``label_tasks.fitted``.
        exposure: exposure of each sample [M], for counts; None if all are 1.
        weight: weight of each sample [M] in the loss; None if all are 1.
        unit: unit of each sample [M], such as its patient; None if each sample is a unit.
        series: of forecasts, scale and simple forecasts of each sample.
        event: of survival, whether the event of each sample was observed [M]; labels are times.
        risk_sets: of survival, options of the risk sets by name (``RiskSetOptions.of``).
    """

    place: Path | str
    title: str
    x: Features | RawTable
    labels: Any
    owners: Shaped[np.ndarray, "..."] | None = None
    owners_name: str = field(default="client_id", kw_only=True)
    split: Shaped[np.ndarray, "..."] | None = None
    label_names: Names | None = None
    feature_names: Names | None = None
    classes: int | None = None
    integers: bool = False
    columns: dict[str, str] | None = None
    scaling: TableScaling | None = None
    task_type: TaskType | None = None
    task_type_is_given: bool = False
    label_scale_from: Any = None
    exposure: Any = None
    weight: Any = None
    unit: Any = None
    series: SeriesRows | None = None
    event: Any = None
    risk_sets: Mapping[str, Any] | None = None
    # Facts about clients, by the column's name; a value for each sample.
    client_columns: dict[str, Any] | None = None

    def labelled(
        self, task_type: TaskType | None, known: Any = None, loss_options: Any = None
    ) -> OwnSamples:
        """The samples with a task type, known statistics of their labels (``label_scale_from``) and
        the options of the loss, which are those of the risk sets of survival."""
        return replace(self, task_type=task_type, label_scale_from=known, risk_sets=loss_options)

    def federation(
        self, partition: PartitionOptions | None, train_fraction: float | int, seed: int
    ) -> FederatedData:
        """The samples divided over clients, and into training and test samples.

        Args:
            partition: how to divide samples that have no owners.
            train_fraction: each client's share of training samples, if the source has no split.
            seed: seed of partition and split.

        Raises:
            DataError: samples are inconsistent or cannot be used; the message names the row.
            ConfigError: options contradict each other.
        """
        x = None
        # A table is scaled by its training samples, so it is read after the split.
        if self.scaling is None:
            assert not isinstance(self.x, RawTable)
            x = clean_features(self.x, self.place, self.integers)
        self._check_lengths()
        if isinstance(self.task_type, Survival):
            return self._federation_of_patients(x, partition, train_fraction, seed)
        unit = self._units(partition)
        if self.task_type is not None:
            return self._federation_of_numbers(x, partition, train_fraction, seed, unit=unit)
        y, classes, names, given = encode_labels(
            self.labels, self.place, self.classes, self.label_names
        )
        if self.classes is None and self.label_names is None:
            warn_of_classes(y, names, self.place)
        (owned, true_clusters), client_names = self._owned(y, partition, seed)
        facts = values_by_client(self.client_columns, owned, client_names, self.place)
        train, test, validation = self._split(owned, train_fraction, seed, client_names, unit=unit)
        transform = None
        if x is None:
            x, transform = self._scaled(train, client_names)
        columns = self.columns
        if names is not None:
            columns = {**(self.columns or {}), LABELS: given}
        return FederatedData(
            name=self.title,
            x=x,
            y=y,
            classes=classes,
            train=train,
            test=test,
            true_clusters=true_clusters,
            client_names=client_names,
            validation=validation,
            label_names=names,
            feature_names=_feature_names(self.feature_names, transform),
            columns=columns,
            from_uint8=self.x.dtype == np.uint8 and not self.integers,
            transform=transform,
            client_columns=facts,
            unit=unit,
        )

    def _units(self, partition: PartitionOptions | None) -> Int[np.ndarray, "M"] | None:
        """The unit of each sample as a number; None if each sample is a unit."""
        if self.unit is None:
            return None
        if partition is not None:
            raise ConfigError(
                f"{self.place}: unit keeps samples of a client together, but partition = "
                f"{partition.partition!r} would divide them among clients; leave one of the two out"
            )
        return unit_numbers(self.unit, self.place)

    def _federation_of_numbers(
        self,
        x: Shaped[np.ndarray, "M ..."] | None,
        partition: PartitionOptions | None,
        train_fraction: float | int,
        seed: int,
        unit: Int[np.ndarray, "M"] | None,
    ) -> FederatedData:
        """The federation of samples whose labels are numbers; arguments as of ``federation``.

        A partition by label divides the samples by ten bins of equal counts.
        """
        assert self.task_type is not None
        if self.task_type.by_time and self.series is None:
            raise ConfigError(
                f"{self.place}: task = {self.task_type.name!r} needs a table with a column of the "
                "time (.csv, .parquet, or fk.data.from_pandas): time = 'date'"
            )
        raw, labelled = read_labels(
            self.labels,
            self.exposure,
            self.weight,
            place=self.place,
            clients=self.owners,
            columns=self.columns,
        )
        raw = replace(raw, series=self.series)
        (owned, true_clusters), client_names = self._owned(_binned(raw.label), partition, seed)
        # A client keeps its facts, whichever of its samples have a label.
        facts = values_by_client(self.client_columns, owned, client_names, self.place)
        owned = _select(owned, labelled)
        train, test, validation = self._split(owned, train_fraction, seed, client_names, unit=unit)
        task_type, y = self._fitted(self.task_type, raw, train)
        assert task_type.loss is not None
        transform = None
        if x is None:
            x, transform = self._scaled(train, client_names)
        assert x is not None
        return FederatedData(
            name=self.title,
            x=x,
            y=y,
            classes=task_type.loss.outputs,
            train=train,
            test=test,
            true_clusters=true_clusters,
            client_names=client_names,
            validation=validation,
            feature_names=_feature_names(self.feature_names, transform),
            columns=self.columns,
            from_uint8=self.x.dtype == np.uint8 and not self.integers,
            transform=transform,
            task_type=task_type,
            client_columns=facts,
            unit=unit,
        )

    def _federation_of_patients(
        self,
        x: Shaped[np.ndarray, "M ..."] | None,
        partition: PartitionOptions | None,
        train_fraction: float | int,
        seed: int,
    ) -> FederatedData:
        """The federation of risk sets, whose labels are times; arguments as of ``federation``."""
        patients = PatientSamples.read(
            self.labels,
            self.event,
            place=self.place,
            clients=self.owners,
            columns=self.columns,
            refused={"exposure": self.exposure, "weight": self.weight, "unit": self.unit},
        )
        (owned, true_clusters), names = self._owned(_binned(patients.times), partition, seed)
        facts = values_by_client(self.client_columns, owned, names, self.place)
        owned = _select(owned, patients.present)
        divided = patients.divided(
            owned,
            training_patients(
                owned,
                self.split,
                train_fraction,
                seed,
                samples=self.x.shape[0],
                place=self.place,
            ),
            names=list(names or map(str, range(len(owned)))),
        )
        transform = None
        if x is None:
            x, transform = self._scaled(divided.train, divided.client_names)
        assert x is not None
        return divided.federation(
            x,
            options=RiskSetOptions.of(self.risk_sets, seed),
            title=self.title,
            place=self.place,
            true_clusters=true_clusters,
            client_columns=facts,
            transform=transform,
            feature_names=_feature_names(self.feature_names, transform),
            columns=self.columns,
        )

    def _owned(
        self, classes: Int[np.ndarray, "M"], partition: PartitionOptions | None, seed: int
    ) -> tuple[Owned, ClientNames | None]:
        """The samples of each client, by their owners or by a partition by their classes; and the
        names of clients, if there are owners."""
        owners = None
        client_names = None
        if self.owners is not None:
            owners = whole_ids(client_ids(self.owners, self.place, self.owners_name))
            client_names = ClientNames.of(np.unique(owners))
        return _divided(classes, owners, partition, seed), client_names

    def _fitted(
        self, task_type: TaskType, raw: RawLabels, train: Ragged
    ) -> tuple[TaskType, Shaped[np.ndarray, "M ..."]]:
        """The task type with the statistics of the labels, and ``y`` of all samples."""
        if self.task_type_is_given:
            return given(task_type, raw, self.place)
        return fitted(
            task_type, raw, train=train.rows, place=self.place, known=self.label_scale_from
        )

    def _scaled(self, train: Ragged, client_names: Sequence[str] | None) -> Scaled:
        """The features of a table and their transform, from the training samples of all clients."""
        assert self.scaling is not None
        check_numbers(self.x, self.place)
        x: Features
        if isinstance(self.x, RawTable):
            x = self.scaling.encoded_table(self.x, train, client_names)
        else:
            x = self.x
        names = self.feature_names or tuple(map(str, range(self.x.shape[1])))
        transform = self.scaling.transform_of(x, train.rows, names, self.place)
        return Scaled(clean_features(x, self.place, transform=transform), transform)

    def _split(
        self,
        owned: Ragged,
        train_fraction: float | int,
        seed: int,
        client_names: ClientNames | None = None,
        unit: Int[np.ndarray, "M"] | None = None,
    ) -> tuple[Ragged, Ragged, Ragged | None]:
        """Training, test and validation rows (samples) of each client; for validation, None if
        there are no such rows."""
        if self.split is None:
            stream = Stream(seed, purpose="data/split")
            if unit is None:
                train, test = split_train_test(owned, stream, train_fraction)
            else:
                train, test = split_units(owned, unit, stream, train_fraction)
            if train_fraction < 1 and not test.sizes.all():
                _warn_of_untested(test, client_names, self.place)
            return train, test, None
        number = split_numbers(self.split, self.place)
        train, test, validation = (_select(owned, number == n) for n in range(3))
        if unit is not None:
            parts = {"train": train, "test": test, "validation": validation}
            check_whole_units(unit, parts, self.place, client_names)
        if not len(validation.rows):
            return train, test, None
        return train, test, validation

    def _check_lengths(self) -> None:
        """Raise DataError unless labels, clients and split have one entry per sample."""
        by_sample = {
            "y": self.labels,
            "clients": self.owners,
            "split": self.split,
            **{role: getattr(self, role) for role in ROLES},
        }
        for name, entries in by_sample.items():
            if entries is None:
                continue
            shape = (len(entries),) if isinstance(entries, (list, tuple)) else np.shape(entries)
            if shape[:1] != (self.x.shape[0],):
                raise DataError(
                    f"{self.place}: x has {self.x.shape[0]} samples, but {name} has shape {shape}"
                )


def _warn_of_untested(test: Ragged, client_names: ClientNames | None, place: Path | str) -> None:
    """Warn of clients without a test sample."""
    untested = np.flatnonzero(test.sizes == 0)
    first = int(untested[0])
    _log.warning(
        "%s: %d of %d clients have no test sample, because they have too few samples, such as "
        "client %s; they train and have no score; leave them out, or mark test samples with a "
        "column split",
        place,
        len(untested),
        len(test),
        first if client_names is None else client_names[first],
    )


def _feature_names(names: Names | None, transform: TableTransform | None) -> Names | None:
    """The names of a table's features: those of an encoding, or those of its columns."""
    if transform is None or transform.encoding is None:
        return names
    return transform.columns


def _binned(numbers: Float[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
    """The bin of each number, of ten bins of equal counts: classes for a partition."""
    return bins_of(numbers, quantile_edges(numbers))


def _divided(
    y: Int[np.ndarray, "M"],
    owners: Shaped[np.ndarray, "M"] | None,
    partition: PartitionOptions | None,
    seed: int,
) -> Owned:
    """Divide the user's samples over clients, by the client ids of the samples or by a
    partition."""
    if partition is None:
        assert owners is not None
        return by_owner(owners), None
    assert partition.clients is not None
    return partition.partition_labels(y, partition.clients, seed)


def _select(owned: Ragged, selected: Bool[np.ndarray, "M"]) -> Ragged:
    """The index with only the selected rows (samples) of every client."""
    rows: Int[np.ndarray, "s"] = owned.rows[selected[owned.rows]]
    before = np.concatenate([[0], np.cumsum(selected[owned.rows])])
    return Ragged(rows, before[owned.offsets].astype(np.int64))
