"""Hugging Face data sets as federated data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.client_ids import client_ids
from fedkin.data.federated import FederatedData
from fedkin.data.label_tasks import refuse_class_options, task_for
from fedkin.data.partition_options import checked, own_partition
from fedkin.data.pil_images import is_image, pixels_of_all
from fedkin.data.split_column import train_share
from fedkin.data.table_options import TableOptions, refuse_table_options
from fedkin.data.table_scaling import TableScaling
from fedkin.data.tables import Columns, column_facts, without_row_numbers
from fedkin.data.texts import check_text, checked_texts, token_reader
from fedkin.data.user_samples import OwnSamples

# Number of rows that show the type and shape of the features.
_FIRST_ROWS = 1024


@checked
def from_hf(
    dataset: Any,
    *,
    by: Any = None,
    client: Any = None,
    label: str = "label",
    features: Any = None,
    partition: str | None = None,
    num_clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    test: Any = 0.2,
    seed: int = 0,
    name: str = "hf",
    label_names: Sequence[str] | None = None,
    classes: int | None = None,
    integers: bool = False,
    scale: str | None = None,
    scale_from: Any = None,
    event: str | None = None,
    loss_options: Any = None,
    text: str | None = None,
    tokenizer: Any = None,
    length: int | None = None,
) -> FederatedData:
    """A federation from a ``datasets.Dataset`` of Hugging Face.

    Args:
        dataset: a single split, such as ``load_dataset(...)["train"]``.
        by: the column with the client of each sample, or a partitioner of ``flwr_datasets`` (its
            ``dataset`` need not be set). Give either this or a partition.
        client: another name for ``by``, as in the other sources.
        label: column of the labels: numbers (a ``ClassLabel`` has their names), text or booleans.
        features: column of the features, images or arrays of one shape; or several columns of
            numbers. None for all other columns.
        partition, num_clients, classes_per_client, alpha, min_samples: how to divide the samples
            over clients, as in ``from_arrays``.
        test: each client's share of test samples, or another ``Dataset`` with the same columns,
            whose samples test the clients that ``by`` names.
        seed: seed of partition and split.
        name: name of the data set.
        label_names: names of the classes 0, 1, ..; None for the names of the ``ClassLabel``, or for
            the text that occurs.
        classes: number of classes C; None for the number of names, or the largest label + 1.
        integers: whether to keep x as integers, such as the tokens of a text. Otherwise x become
            float32, and images are scaled to 0 .. 1.
        scale, scale_from: how columns of numbers are scaled, as in ``load``. Images, arrays and
            integers are not scaled.
        event: of survival, the column that says whether the event was observed, as in ``load``; the
            label is the time.
        loss_options: of survival, options of the loss ``cox``, as in ``load``.
        text: column of texts, for ``fk.lora``; x are then the token numbers of ``tokenizer``.
        tokenizer, length: as in ``fk.data.texts``.

    Returns:
        The federation.

    Raises:
        DataError: a column does not exist, values are missing, a feature is text, or samples have
            different shapes.
        ConfigError: ``by`` and ``partition`` are both given or both missing, or other options
            contradict each other.
    """
    by = _one_of(by, client)
    options = own_partition(
        partition=partition,
        clients=num_clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
    )
    _check_dataset(dataset, name)
    _check_source(by, options)
    split = None
    if hasattr(test, "column_names"):
        dataset, split = _with_test(dataset, test, by)
    owners = None
    if hasattr(by, "load_partition"):
        dataset, owners = _partitioned(dataset, by)
    client_column = by if isinstance(by, str) else None
    check_text(text, {"tokenizer": tokenizer, "length": length}, features)
    columns = _checked_columns(
        dataset, text or features, label=label, by=by, event=event, name=name
    )
    if client_column is not None:
        owners = _client_column(dataset, client_column, name)
    task_type = task_for(event, None, options=loss_options)
    refuse_class_options(task_type, classes, label_names)
    names = None
    if event is None:
        names = _label_names(dataset, label, label_names)
    x: Any
    reader = None
    if text is None:
        x = HFFeatures(dataset, columns, name)
        is_table = x.plain and not integers
    else:
        reader = token_reader(tokenizer)
        x = reader.tokens(checked_texts(_column(dataset, text), name, text), length, name)
        is_table = False
        integers = True
    samples = OwnSamples(
        place=name,
        title=name,
        x=x,
        labels=_column(dataset, label),
        owners=owners,
        split=split,
        label_names=names,
        feature_names=tuple(columns) if text is None and x.plain else None,
        classes=classes,
        integers=integers,
        columns=_roles(label, client_column, event=event, text=text),
        owners_name="client_id" if client_column is None else client_column,
        scaling=_scaling(is_table, scale, scale_from, name),
        task_type=task_type,
        event=None if event is None else _column(dataset, event),
        risk_sets=loss_options,
    )
    data = samples.federation(options, train_share(test) if split is None else 1, seed)
    return data if reader is None else replace(data, tokenizer=reader.digest)


def _scaling(is_table: bool, scale: str | None, scale_from: Any, name: str) -> TableScaling | None:
    """How columns of numbers are scaled; None if the samples are no table.

    Raises ConfigError if a scaling is asked of images, arrays or integers.
    """
    if is_table:
        return TableOptions.of(scale, scale_from).scaling()
    kind = "a data set of images, arrays or integers"
    refuse_table_options(kind, name, {"scale": scale, "scale_from": scale_from})
    return None


def _roles(
    label: str, client: str | None, event: str | None, text: str | None
) -> dict[str, str] | None:
    """The names of columns by their roles."""
    facts = column_facts(Columns(label, client, event=event))
    return facts if text is None else {**(facts or {}), "text": text}


def _one_of(by: Any, client: Any) -> Any:
    """The column or partitioner in ``by`` or its other name ``client``.

    Raises ConfigError if both are given.
    """
    if by is not None and client is not None:
        raise ConfigError(
            f"client and by are the same option; got client={client!r} and by={by!r}, leave one of "
            "them out"
        )
    return client if by is None else by


def _check_source(by: Any, options: Any) -> None:
    """Raise ConfigError unless either ``by`` or a partition gives the client of each sample."""
    if (by is None) == (options is None):
        raise ConfigError(
            "give either by= (the column with the client of each sample, or a partitioner), or "
            "partition= and num_clients= (to divide the samples among clients); got "
            f"{'neither' if options is None else 'both'}"
        )


def _check_dataset(dataset: Any, name: str) -> None:
    """Raise DataError for anything but a Dataset, such as a dictionary of all splits."""
    if isinstance(dataset, dict):
        raise DataError(
            f"{name}: expected one split, got a {type(dataset).__name__} with "
            f"{', '.join(map(str, dataset))}; choose one, such as dataset['train'] (and "
            "test=dataset['test'])"
        )
    needed = ("column_names", "with_format", "__len__")
    if not all(hasattr(dataset, attribute) for attribute in needed):
        raise DataError(
            f"{name}: expected a datasets.Dataset of Hugging Face, got {type(dataset).__name__}"
        )
    if not len(dataset):
        raise DataError(f"{name}: expected one row per sample, found none")


def _label_names(dataset: Any, label: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    """The given names of the classes, or those of the ``ClassLabel``; None if there are none."""
    names = getattr(dataset.features[label], "names", None) if given is None else given
    return None if names is None else tuple(names)


def _checked_columns(
    dataset: Any, features: Any, label: str, by: Any, event: str | None, name: str
) -> list[str]:
    """The columns of the features, after a check that these, the label's, the clients' and the
    events' exist."""
    columns = _feature_columns(dataset, features, (label, by, event), name)
    needed = [column for column in (label, by, event) if isinstance(column, str)]
    _check_columns(dataset, [*needed, *columns], name)
    return columns


def _feature_columns(dataset: Any, features: Any, used: tuple[Any, ...], name: str) -> list[str]:
    """The columns of the features: the given ones, or all columns that are not label or client."""
    if features is not None:
        return [features] if isinstance(features, str) else list(features)
    candidates = [column for column in dataset.column_names if column not in used]
    return without_row_numbers(candidates, name)


def _check_columns(dataset: Any, columns: Sequence[str], name: str) -> None:
    """Raise DataError for a column that does not exist."""
    for column in columns:
        if column not in dataset.column_names:
            raise DataError(f"{name}: {unknown('column', str(column), dataset.column_names)}")


def _with_test(dataset: Any, test: Any, by: Any) -> tuple[Any, Shaped[np.ndarray, "M"]]:
    """The data sets for training and for testing joined into one, and the split of each sample: 0
    for training, 1 for test."""
    if not isinstance(by, str):
        raise ConfigError(
            "a data set as test= needs by=, the column with the client of each of its samples; "
            "otherwise test must be a share"
        )
    if dataset.column_names != test.column_names:
        raise DataError(
            f"test has the columns {test.column_names}, expected {dataset.column_names}"
        )
    from datasets import concatenate_datasets  # type: ignore[import-not-found]

    joined = concatenate_datasets([dataset, test])
    return joined, np.repeat([0, 1], [len(dataset), len(test)])


def _partitioned(dataset: Any, partitioner: Any) -> tuple[Any, Shaped[np.ndarray, "M"]]:
    """The samples of a partitioned data set, one client after another, and the client of each
    sample."""
    from datasets import concatenate_datasets  # type: ignore[import-not-found]

    if not partitioner.is_dataset_assigned():
        partitioner.dataset = dataset
    elif partitioner.dataset is not dataset:
        raise ConfigError(
            "by: the partitioner already divides another data set; make a new partitioner"
        )
    try:
        parts = [partitioner.load_partition(client) for client in range(partitioner.num_partitions)]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        kind = type(partitioner).__name__
        raise DataError(f"by: the {kind} cannot divide these data: {error}") from error
    sizes = [len(part) for part in parts]
    if 0 in sizes:
        raise DataError(
            f"by: the {type(partitioner).__name__} gives client {sizes.index(0)} no samples "
            f"({sizes.count(0)} such clients); use fewer partitions"
        )
    return concatenate_datasets(parts), np.repeat(_partition_names(partitioner, len(parts)), sizes)


def _partition_names(partitioner: Any, partitions: int) -> Shaped[np.ndarray, "N"]:
    """The name of each partition, which becomes a client's name.

    Some partitioners make a partition for each value of a column. Then the name is that value,
    otherwise a number.
    """
    entries = getattr(partitioner, "partition_id_to_natural_id", None)
    # Without a value for each partition, partitions are numbered.
    if not isinstance(entries, dict) or set(entries) != set(range(partitions)):
        return np.arange(partitions)
    names = [entries[number] for number in range(partitions)]
    column = getattr(partitioner, "_partition_by", None)
    classes = getattr(partitioner.dataset.features.get(column), "names", None)
    if classes is not None:
        names = [classes[entry] for entry in names]
    return client_ids(names, "by", "the partitioner's column")


def _client_column(dataset: Any, by: str, name: str) -> Shaped[np.ndarray, "M"]:
    """The client of each sample, from the column ``by``. If the column is a ``ClassLabel``, clients
    are the names of its classes."""
    owners = _column(dataset, by)
    classes = getattr(dataset.features[by], "names", None)
    if classes is None or owners.dtype.kind not in "iu":
        return owners
    unknown_class = np.flatnonzero((owners < 0) | (owners >= len(classes)))
    if len(unknown_class):
        row = unknown_class[0]
        raise DataError(
            f"{name}: column {by}, row {row} has no client: {owners[row]} is not a class of its "
            f"ClassLabel ({len(unknown_class)} such rows); drop these rows"
        )
    return np.array(classes)[owners]


def _column(dataset: Any, column: str, rows: slice = slice(None)) -> Shaped[np.ndarray, "M ..."]:
    """The values of a column of a Hugging Face data set, as an array."""
    return dataset.select_columns([column]).with_format("numpy")[rows][column]


def _images(dataset: Any, column: str, rows: slice, place: str) -> Shaped[np.ndarray, "M ..."]:
    """The pixels of a column of images.

    Raises DataError for a missing image, and the errors of ``pixels_of_all``.
    """
    images = dataset.select_columns([column]).with_format(None)[rows][column]
    start = rows.start or 0
    missing = [row for row, image in enumerate(images) if not is_image(image)]
    if missing:
        raise DataError(
            f"{place}, row {start + missing[0]} has no image ({len(missing)} such rows); drop "
            "these rows, or decode them: dataset.cast_column(column, datasets.Image())"
        )
    return pixels_of_all(images, place, start)


class HFFeatures:
    """The feature columns of a data set as numbers [M ...], read a block of samples at a time.

    Args:
        dataset: the data set.
        columns: one column of arrays, or several columns of numbers.
        name: beginning of error messages.

    Raises:
        DataError: there is no column, features are not numbers, or samples have different shapes.
    """

    def __init__(self, dataset: Any, columns: list[str], name: str) -> None:
        if not columns:
            raise DataError(f"{name}: expected a column of features other than the label, got none")
        self._dataset = dataset
        self._columns = columns
        self._name = name
        # If samples are single numbers, each column is one feature.
        self.plain = self._values(columns[0], slice(0, 1)).ndim == 1
        self._sample_shape: tuple[int, ...] | None = None
        block = self[0:_FIRST_ROWS]
        self._sample_shape = block.shape[1:]
        self.dtype = block.dtype
        self.shape = (len(dataset), *block.shape[1:])

    def _values(self, column: str, rows: slice) -> Shaped[np.ndarray, "b ..."]:
        """The numbers of one feature column, for the given rows (samples)."""
        place = f"{self._name}: column {column}"
        if type(self._dataset.features[column]).__name__ == "Image":
            return _images(self._dataset, column, rows, place)
        return _numbers(_column(self._dataset, column, rows), place, rows.start or 0)

    def __getitem__(self, rows: slice) -> Shaped[np.ndarray, "b ..."]:
        name = self._name
        start = rows.start or 0
        arrays = [self._values(column, rows) for column in self._columns]
        for column, array in zip(self._columns, arrays, strict=True):
            if len(arrays) > 1 and array.ndim > 1:
                raise DataError(
                    f"{name}: expected one column of arrays, or several columns of numbers; "
                    f"{column} has shape {array.shape[1:]} next to {len(arrays) - 1} other "
                    "columns; name it alone with features="
                )
        block = arrays[0]
        if len(arrays) > 1:
            block = np.stack([array.astype(np.float64) for array in arrays], axis=1)
        if block.ndim == 1:
            block = block[:, None]
        if self._sample_shape not in (None, block.shape[1:]):
            raise DataError(
                f"{name}: column {self._columns[0]}: row {start} has shape {block.shape[1:]}, but "
                f"row 0 has {self._sample_shape}; resize or pad them to one shape, or name other "
                "columns with features="
            )
        return block


def _is_missing(value: Any) -> bool:
    """Whether a value is None or NaN, which is the only value that is not equal to itself."""
    return value is None or bool(np.ndim(value) == 0 and value != value)


def _numbers(
    values: Shaped[np.ndarray, "M ..."], place: str, start: int = 0
) -> Shaped[np.ndarray, "M ..."]:
    """The values of a feature column as an array, after a check that they are numbers.

    Args:
        values: values of consecutive rows.
        place: beginning of error messages.
        start: number of the first row.

    Raises:
        DataError: values are missing, of different shapes, or not numbers.
    """
    if values.dtype.kind == "O":
        rows = [row for row, value in enumerate(values) if _is_missing(value)]
        if rows:
            raise DataError(
                f"{place}, row {start + rows[0]} is missing ({len(rows)} such rows); drop these "
                "rows"
            )
        shapes = [np.shape(value) for value in values]
        odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        raise DataError(
            f"{place}: row {start + odd} has shape {shapes[odd]}, but row {start} has {shapes[0]}; "
            "resize or pad them to one shape, or name other columns with features="
        )
    if values.dtype.kind not in "iufb":
        raise DataError(
            f"{place} holds {'text' if values.dtype.kind in 'US' else values.dtype}, such as "
            f"{values[:1].tolist()}; convert it to numbers with dataset.map(...), or name the "
            "other columns with features="
        )
    return values
