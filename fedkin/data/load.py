"""Reads the user's data: from a file, a folder of arrays (packed or not), or in LEAF's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.storage import user_path
from fedkin.data.client_columns import names_of
from fedkin.data.federated import FederatedData
from fedkin.data.file_samples import CLIENT, LABEL, OTHERS, feature_list, file_samples
from fedkin.data.files import ENDINGS_OF, table_kind
from fedkin.data.forecast_samples import ForecastReader
from fedkin.data.label_tasks import RAW, refuse_class_options, task_for
from fedkin.data.leaf import leaf
from fedkin.data.packed import is_packed, open_packed
from fedkin.data.partition_options import PartitionOptions, checked, own_partition
from fedkin.data.table_options import TableOptions, refuse_table_options
from fedkin.data.user_samples import OwnSamples
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

ENDINGS = tuple(ending for endings in ENDINGS_OF.values() for ending in endings)


@checked
def load(
    path: str | Path,
    *,
    classes: int | None = None,
    train_fraction: float | int | None = None,
    seed: int | None = None,
    label: str | int | None = None,
    client: str | int | None = None,
    features: Any = None,
    label_names: Sequence[str] | None = None,
    partition: str | None = None,
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    scale: str | None = None,
    scale_from: Any = None,
    drop: Any = None,
    rename: Any = None,
    task: str | None = None,
    loss: str | None = None,
    quantiles: Any = None,
    loss_options: Any = None,
    label_scale_from: Any = None,
    exposure: str | int | None = None,
    weight: str | int | None = None,
    event: str | int | None = None,
    unit: str | int | None = None,
    categories: Any = None,
    min_frequency: int | None = None,
    min_clients: int | None = None,
    time: Any = None,
    season: int | None = None,
    lags: Any = None,
    test_from: Any = None,
    validation_from: Any = None,
    label_scale: str | None = None,
    frequency: str | None = None,
    client_columns: Any = None,
    integers: bool | None = None,
) -> FederatedData:
    """A federation from a file with an entry for each sample, or from a folder in LEAF's layout.

    A file has these arrays (npz) or columns (tables), with one entry for each sample:

    * ``x``: features, kept as float32. npz: an array [M, ...] of floats or integers; uint8 are
      pixels and scaled to 0 .. 1. Tables: every other column, in order, is a feature. Numbers are
      scaled by all clients' training samples (``scale``); text becomes a column of 0 and 1 for each
      category; missing values are filled with the mean of all clients' training samples, and a
      column with more than 0.5% of them gets an indicator column
    * ``y``: label: a whole number from 0, text (numbered in sorted order, and remembered as
      ``label_names``) or a boolean
    * ``client_id``: the client of the sample, a number or a name. Clients are numbered in ascending
      order
    * ``split``: ``train``, ``test`` or ``validation``, or 0, 1 or 2. Without it, each client's
      samples are split at random into training and test samples

    A folder in LEAF's layout has ``train/*.json`` and ``test/*.json`` (optionally ``val/*.json``),
    or one ``*train*.json`` and one ``*test*.json``, as LEAF and FedProx's authors publish them:
    ``{"users": [..], "user_data": {user: {"x": [..], "y": [..]}}}``, with numbers as x. x is not
    scaled, and clients keep the order of the files.

    A folder of ``x.npy``, ``y.npy``, ``client_id.npy`` and optionally ``split.npy`` is read as an
    npz file of these arrays.

    A folder that ``pack`` or ``fedkin data make`` wrote is mapped into memory, so its data may be
    larger than memory.

    Args:
        path: an ``.npz``, ``.csv``, ``.tsv`` (each also with ``.gz``) or ``.parquet`` file, or a
            folder.
        classes: number of classes C; None for the largest label + 1. It must be given if a label
            exceeds the number of samples.
        train_fraction: each client's share of training samples if the data have no ``split``; None
            for 0.9.
        seed: seed of a random split (if the data have no ``split``) and of a partition; None for 0.
        label: column (or array of an npz file) of the labels; None for ``y``. A number is the name
            of a column, not its position.
        client: column of the clients; None for ``client_id``.
        features: columns of the features, in this order (one array in an npz file); None for all
            other columns (``x``).
        label_names: names of the classes 0, 1, ..; None for the text that occurs. Sites that train
            together must give the same names, so that all of them number labels in the same way.
        partition: how to divide the samples over clients by their labels, instead of ``client``:
            ``dirichlet``, ``shards``, ``power_law``, ``blocks`` or ``iid``, as for the named image
            sets.
        clients: number of clients N of a partition.
        classes_per_client: number of classes per client for the partitions ``shards``,
            ``power_law`` and ``blocks``; None for 2.
        alpha: concentration of the partition ``dirichlet``; None for 0.5.
        min_samples: smallest number of samples per client for ``dirichlet``; None for 10.
        scale: how the feature columns of a table are scaled, by statistics of the training samples
            of all clients: ``standard`` (mean and standard deviation), ``robust`` (median and
            interquartile range) or ``none``; None for ``standard``. Only tables are scaled.
        scale_from: ``{"mean": {column: number}, "scale": {column: number}}``, or the path of a JSON
            or TOML file with these tables. Then no statistics are computed. ``transform.json`` of a
            run folder also says how text and missing values become numbers.
        drop: columns of a table that are left out, such as ``["row_id"]``.
        rename: new names of columns by their names in the file, such as ``{"years": "age"}``. All
            other options use the new names.
        task: what the labels are: ``classification``, ``regression``, ``count``, ``quantile``,
            ``forecast`` or ``survival``; None for the task that has the loss or the event, or
            classes.
        loss: the training loss, named as in scikit-learn: ``squared_error``, ``absolute_error``,
            ``huber``, ``gaussian_nll``; ``poisson``, ``gamma``, ``tweedie``, ``negative_binomial``;
            ``quantile``; ``cox``. None for the task's first one.
        quantiles: levels of the task ``quantile``; None for 0.1, 0.5 and 0.9.
        loss_options: options of the loss, such as ``{"delta": 1.0}`` of ``huber``, or
            ``{"ties": "efron", "at_risk": 8, "draws": 8}`` of ``cox`` (``from_patients``).
        label_scale_from: known statistics of labels that are numbers, in place of those of the
            training samples: ``{"mean": 50.0, "scale": 12.0}``, or ``{"rate": 2.5}`` for counts.
        exposure: column (or array) of the exposure of counts, such as years of observation.
        weight: column (or array) of the weights of samples in the loss.
        event: of survival, the column (or array) that says whether the event was observed: 1 or 0,
            or a boolean. The label is the time of the event, or the time until which the patient
            was seen. Samples are risk sets, as in ``from_patients``.
        unit: column (or array) of what samples belong to, such as the patient of a visit. All
            samples of a client's unit are in one part, and ``train_fraction`` is a share of units.
        categories: columns of numbers that are categories, such as ``["month"]``. Columns of text
            are categories always: each category becomes a column of 0 and 1.
        min_frequency: a category with fewer training samples shares the column ``infrequent``; None
            for 10.
        min_clients: a category that fewer clients have shares it as well; None for 2.
        time: of a forecast, the column of the time: dates, or whole numbers of steps; or columns
            such as ``["year", "month"]``. Each row is the value of a client at a step.
        season: number of steps in a season; None for the usual one (12 of months, 7 of days).
        lags: steps of the client's own past whose values are features, such as ``[1, 2, 12]``;
            None for 1 and the season. A column LABEL_lag12 of the table is taken as it is.
        test_from: date of the first test sample, for all clients, such as ``"2018-01"``; None for
            the share of samples at the end that ``train_fraction`` leaves.
        validation_from: date of the first validation sample; None without validation samples.
        label_scale: ``client`` scales a forecast's labels and lags by the mean and the deviation of
            each client's own training labels, ``pooled`` by those of all; None for ``client``.
        frequency: length of a step, such as ``month`` or ``15 minutes``, which the rows of every
            client must have; None for the commonest distance between a client's rows.
        client_columns: columns of a table that describe clients and not samples, such as
            ``["sector"]``: the method ``given`` can use them, and they are no features.
        integers: True keeps x of an npz file or of npy files as integers, such as the token numbers
            of texts; None for False.

    Returns:
        The federation.

    Raises:
        DataError: the data are missing, damaged, out of range or not finite; the message names the
            file.
        ConfigError: ``train_fraction`` or ``seed`` is given although the data have a split; an
            option for files, such as ``label`` or ``time``, is given for a folder in LEAF's layout
            or of packed data, or a task that its labels do not have; ``client`` and ``partition``
            are both given; ``classes`` or ``label_names`` is given for labels that are no classes;
            or an option of tables, such as ``scale``, is given for other data.
    """
    path = user_path(path)
    of_tables = {
        "scale": scale,
        "scale_from": scale_from,
        "drop": drop,
        "rename": rename,
        "categories": categories,
        "min_frequency": min_frequency,
        "min_clients": min_clients,
    }
    options = own_partition(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
        count="clients",
    )
    _refuse_two_divisions(client, partition)
    task_type = task_for(event, task, loss, quantiles, options=loss_options, known=label_scale_from)
    refuse_class_options(task_type, classes, label_names)
    of_forecasts: dict[str, Any] = {"time": time, "season": season, "lags": lags}
    of_forecasts |= {"test_from": test_from, "validation_from": validation_from}
    of_forecasts |= {"label_scale": label_scale, "frequency": frequency}
    test_share = None if train_fraction is None else 1 - train_fraction
    forecast = ForecastReader.of(task_type, test_share, **of_forecasts)
    roles = {"exposure": exposure, "weight": weight, "event": event, "unit": unit}
    if path.is_dir() and not has_arrays(path):
        of_file = {"label": label, "client": client, "features": features, "integers": integers}
        of_file |= {"label_names": label_names, "partition": partition, **roles, **of_forecasts}
        of_file["client_columns"] = client_columns
        # A server that computes the statistics of labels takes stored ones, too.
        of_file["label_scale_from"] = None if label_scale_from == RAW else label_scale_from
        _refuse_split(path, train_fraction, seed)
        data = _folder_data(path, classes, of_file=of_file, of_tables=of_tables)
        of_labels = {"task": task, "loss": loss, "quantiles": quantiles}
        of_labels["loss_options"] = loss_options
        _check_labels(data, path, task_type, options=of_labels)
        return data
    samples = file_samples(
        path=path,
        label=LABEL if label is None else str(label),
        client=CLIENT if client is None else str(client),
        features=None if features is None else feature_list(features),
        owned=options is None,
        label_names=None if label_names is None else tuple(label_names),
        classes=classes,
        options=_table_options(path, of_tables),
        roles=roles,
        client_columns=names_of(client_columns),
        forecast=forecast,
    )
    samples = _with_integers(samples, path, integers)
    if samples.task_type is not None:
        # The samples of a forecast are divided by time.
        return samples.federation(options, 1, seed or 0)
    samples = samples.labelled(task_type, label_scale_from, loss_options)
    return _divided(samples, path, options=options, train_fraction=train_fraction, seed=seed)


def _divided(
    samples: OwnSamples,
    path: Path,
    options: PartitionOptions | None,
    train_fraction: float | int | None,
    seed: int | None,
) -> FederatedData:
    """The federation of samples, divided into training and test samples.

    Args:
        samples: the samples of the file.
        path: the file.
        options: how a partition divides samples among clients; None if they have clients.
        train_fraction: as in ``load``.
        seed: as in ``load``.
    """
    if samples.split is not None:
        _refuse_split(path, train_fraction, seed if options is None else None)
    fraction = 0.9 if train_fraction is None else train_fraction
    return samples.federation(options, fraction, seed or 0)


def _table_options(path: Path, of_tables: dict[str, Any]) -> TableOptions:
    """The options of tables. Raises ConfigError for an invalid one, or if one is given for
    arrays."""
    options = TableOptions.of(**of_tables)
    is_array = has_arrays(path) if path.is_dir() else table_kind(path, OTHERS) == "npz"
    if is_array:
        refuse_table_options("an array, which may hold images", path, of_tables)
    return options


def _with_integers(samples: OwnSamples, path: Path, integers: bool | None) -> OwnSamples:
    """The samples, whose features stay integers if the option says so. Raises ConfigError for a
    table, whose columns are scaled."""
    if not integers:
        return samples
    if not path.is_dir() and table_kind(path, OTHERS) != "npz":
        raise ConfigError(
            f"integers = true applies to arrays (.npz, .npy), but {path} is a table; leave it out"
        )
    return replace(samples, integers=True)


def _refuse_two_divisions(client: str | int | None, partition: str | None) -> None:
    """Raise ConfigError if a column names the clients and a partition divides the samples, too."""
    if client is not None and partition is not None:
        raise ConfigError(
            f"client = {client} does not apply to partition = {partition}; leave one of them out"
        )


def _folder_data(
    path: Path, classes: int | None, of_file: dict[str, object], of_tables: dict[str, Any]
) -> FederatedData:
    """The federation in a folder of packed data, or in LEAF's layout.

    Args:
        path: the folder.
        classes: as in ``load``.
        of_file: values of the options that only single files have; a given one is refused.
        of_tables: values of the options that only tables have; a given one is refused.
    """
    refuse_table_options(_kind_of_folder(path), path, of_tables)
    if is_packed(path):
        _refuse_options_of_file(path, of_file | {"classes": classes})
        return open_packed(path)
    _refuse_options_of_file(path, of_file)
    return leaf(path, classes)


def _check_labels(
    data: FederatedData, path: Path, asked: TaskType | None, options: Mapping[str, Any]
) -> None:
    """Raise ConfigError if options ask for other labels than a folder has.

    Args:
        data: the federation in the folder.
        path: the folder.
        asked: the task type that the options ask for; None for classes.
        options: the options that say what the labels are; None if not given.
    """
    wanted = asked or CLASSIFICATION
    if wanted.name == data.task_type.name and wanted.loss == data.task_type.loss:
        return
    for name, value in options.items():
        if value is not None:
            raise ConfigError(
                f"{name} = {value} does not apply to {path}, {_kind_of_folder(path)} whose labels "
                f"are of task = {data.task_type.name!r}; leave it out"
            )


def has_arrays(path: Path) -> bool:
    """Whether a folder holds npy files, one for each array, but no packed data."""
    return not is_packed(path) and any(path.glob("*.npy"))


def _refuse_split(path: Path, train_fraction: float | int | None, seed: int | None) -> None:
    """Raise ConfigError for options of a random split if the data have a split."""
    for name, value in (("train_fraction", train_fraction), ("seed", seed)):
        if value is not None:
            raise ConfigError(
                f"{name} = {value} does not apply to {path}, which has its own split; leave it out"
            )


def _refuse_options_of_file(path: Path, options: Mapping[str, object]) -> None:
    """Raise ConfigError for options of single files if the data are a folder."""
    for name, value in options.items():
        if value is not None:
            kind = _kind_of_folder(path)
            raise ConfigError(f"{name} = {value} does not apply to {path}, {kind}; leave it out")


def _kind_of_folder(path: Path) -> str:
    """The kind of a folder of data, for messages."""
    return "a folder of packed data" if is_packed(path) else "a folder in LEAF's layout"
