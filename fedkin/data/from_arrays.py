"""The user's own arrays and DataFrames as federated data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.client_columns import names_of
from fedkin.data.client_ids import client_ids
from fedkin.data.column_lists import column_list
from fedkin.data.federated import FederatedData
from fedkin.data.forecast_samples import ForecastReader
from fedkin.data.label_tasks import refuse_class_options, task_for
from fedkin.data.partition_options import PartitionOptions, checked, own_partition
from fedkin.data.split_column import train_share
from fedkin.data.table_options import TableOptions
from fedkin.data.tables import Columns, table_samples
from fedkin.data.texts import FrameOfTexts
from fedkin.data.user_arrays import user_array
from fedkin.data.user_samples import OwnSamples

if TYPE_CHECKING:
    import pandas as pd


@checked
def from_arrays(
    x: Any,
    y: Any,
    *,
    clients: Any = None,
    partition: str | None = None,
    num_clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    test: Any = 0.2,
    seed: int = 0,
    name: str = "arrays",
    label_names: Sequence[str] | None = None,
    classes: int | None = None,
    integers: bool = False,
    task: str | None = None,
    loss: str | None = None,
    quantiles: Any = None,
    loss_options: Any = None,
    label_scale_from: Any = None,
    exposure: Any = None,
    weight: Any = None,
    unit: Any = None,
) -> FederatedData:
    """A federation from arrays of samples and labels.

    Args:
        x: features [M, ...], converted to float32; uint8 arrays are pixels and scaled to 0 .. 1.
        y: labels [M]: whole numbers from 0, text (numbered in sorted order, and remembered as
            ``label_names``) or booleans (0 and 1, named False and True).
        clients: the client of each sample [M], as numbers or names. Clients are numbered in
            ascending order. Give either this or a partition.
        partition: how to divide the samples over clients by their labels: ``dirichlet``,
            ``shards``, ``power_law``, ``blocks`` (the blocks become the true clusters) or ``iid``,
            as for the named image sets (:mod:`fedkin.data.image_sets`).
        num_clients: number of clients N of a partition.
        classes_per_client: number of classes per client for the partitions ``shards``,
            ``power_law`` and ``blocks``; None for 2.
        alpha: concentration of the partition ``dirichlet``; None for 0.5.
        min_samples: smallest number of samples per client for ``dirichlet``; None for 10.
        test: each client's share of test samples, or booleans [M] that mark the test samples, or
            numbers [M]: 0 for training samples, 1 for test samples, 2 for validation samples. A
            client with one sample uses it for training.
        seed: seed of partition and split.
        name: name of the data set.
        label_names: names of the classes 0, 1, ..; None for the text that occurs in y.
        classes: number of classes C; None for the number of names, or the largest label + 1.
        integers: whether to keep x as integers, such as the word indices of a text.
        task: what the labels are: ``classification``, ``regression``, ``count`` or ``quantile``;
            None for the task that has the loss, or classes. A forecast needs a table, and survival
            times have ``from_patients``.
        loss: the training loss, named as in scikit-learn: ``squared_error``, ``absolute_error``,
            ``huber``, ``gaussian_nll``; ``poisson``, ``gamma``, ``tweedie``, ``negative_binomial``;
            ``quantile``. None for the task's first one.
        quantiles: levels of the task ``quantile``; None for 0.1, 0.5 and 0.9.
        loss_options: options of the loss, such as ``{"delta": 1.0}`` of ``huber``.
        label_scale_from: known statistics of labels that are numbers, in place of those of the
            training samples: ``{"mean": 50.0, "scale": 12.0}``, or ``{"rate": 2.5}`` for counts.
        exposure: exposure of each sample [M], such as years of observation, for counts.
        weight: weight of each sample [M] in the loss of its client's batch. Weights do not change
            the statistics that scale labels.
        unit: what each sample belongs to [M], such as the patient of a visit. All samples of a
            client's unit are in one part, and ``test`` is a share of units.

    Returns:
        The federation.

    Raises:
        DataError: there are no samples, arrays have different lengths, values are missing, of mixed
            types or not finite, or a client has no training sample.
        ConfigError: ``clients`` and ``partition`` are both given or both missing, or an option does
            not apply to the partition.
    """
    options = own_partition(
        partition=partition,
        clients=num_clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
    )
    if (clients is None) == (options is None):
        raise ConfigError(
            "give either clients= (the client of each sample, as a number or a name), or "
            "partition= and num_clients= (to divide the samples among clients); got "
            f"{'neither' if options is None else 'both'}"
        )
    if clients is not None and (isinstance(clients, (str, bytes)) or not np.iterable(clients)):
        raise ConfigError(
            f"clients must be an array with a client id for each sample, got {clients!r}; to "
            "divide the samples among clients, give partition= and num_clients="
        )
    split = _split(test, name)
    task_type = task_for(None, task, loss, quantiles, options=loss_options, known=label_scale_from)
    refuse_class_options(task_type, classes, label_names)
    samples = OwnSamples(
        place=name,
        title=name,
        x=user_array(x, name, "x"),
        labels=y,
        owners=None if clients is None else client_ids(clients, name, "clients"),
        split=split,
        label_names=None if label_names is None else tuple(label_names),
        classes=classes,
        integers=integers,
        task_type=task_type,
        label_scale_from=label_scale_from,
        exposure=exposure,
        weight=weight,
        unit=unit,
    )
    return samples.federation(options, train_share(test) if split is None else 1, seed)


@checked
def from_pandas(
    frame: Any,
    *,
    label: Any,
    client: Any = None,
    features: Any = None,
    partition: str | None = None,
    num_clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    test: Any = 0.2,
    seed: int = 0,
    name: str = "frame",
    label_names: Sequence[str] | None = None,
    classes: int | None = None,
    scale: str | None = None,
    scale_from: Any = None,
    drop: Any = None,
    rename: Any = None,
    task: str | None = None,
    loss: str | None = None,
    quantiles: Any = None,
    loss_options: Any = None,
    label_scale_from: Any = None,
    exposure: Any = None,
    weight: Any = None,
    event: Any = None,
    unit: Any = None,
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
    text: str | None = None,
    tokenizer: Any = None,
    length: int | None = None,
) -> FederatedData:
    """A federation from a DataFrame with one row per sample.

    Args:
        frame: the table. Text becomes columns of 0 and 1, and missing values are filled, as in
            ``load``.
        label: column of the labels: text, booleans, or whole numbers from 0; for other tasks,
            numbers.
        client: column with the client of each sample. Give either this or a partition.
        features: columns of the features, in this order; None for all other columns.
        partition, num_clients, classes_per_client, alpha, min_samples: how to divide the samples
            over clients, as in ``from_arrays``.
        test: each client's share of test samples, or the column that says ``train``, ``test`` or
            ``validation`` (or 0, 1 or 2).
        seed: seed of partition and split.
        name: name of the data set.
        label_names: names of the classes 0, 1, ..; None for the text that occurs.
        classes: number of classes C; None for the number of names, or the largest label + 1.
        scale: how the feature columns are scaled, by statistics of the training samples of all
            clients: ``standard`` (mean and standard deviation), ``robust`` (median and
            interquartile range) or ``none``; None for ``standard``.
        scale_from, drop, rename: given statistics, columns that are left out, and new names of
            columns, as in ``load``.
        task, loss, quantiles, loss_options, label_scale_from: what the labels are, and how they are
            scaled, as in ``load``.
        exposure: column of the exposure of counts.
        weight: column of the weights of samples.
        event: of survival, the column that says whether the event was observed, as in ``load``.
        unit: column of what samples belong to, as in ``load``.
        categories, min_frequency, min_clients: columns of numbers that are categories, and which
            categories get a feature, as in ``load``.
        time, season, lags, test_from, validation_from, label_scale, frequency: how rows become
            samples of the task ``forecast``, as in ``load``. ``test`` is the share of the samples
            at the end, or a column of a split by time.
        client_columns: columns that describe clients and not samples, such as ``["sector"]``: the
            method ``Given`` can use them, and they are no features.
        text: column of texts, for ``fk.lora``; x are then the token numbers of ``tokenizer``. Only
            the options of clients, labels, partition, test samples, seed and name apply.
        tokenizer, length: as in ``fk.data.texts``.

    Returns:
        The federation.

    Raises:
        DataError: a column does not exist, there are no rows, or a value is missing, of another
            type or not finite; the message names column and row.
        ConfigError: ``client`` and ``partition`` are both given or both missing, or an option does
            not apply to the partition.
    """
    if text is not None or tokenizer is not None or length is not None:
        return FrameOfTexts.of(locals()).federation()
    options = own_partition(
        partition=partition,
        clients=num_clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
    )
    _check_source(frame, client, options)
    table_options = TableOptions.of(
        scale,
        scale_from,
        drop,
        rename,
        categories=categories,
        min_frequency=min_frequency,
        min_clients=min_clients,
    )
    frame = table_options.rename(frame, name)
    split = test if isinstance(test, str) else None
    chosen = column_list("features", features, "['age', 'weight']")
    columns = Columns(
        label=label,
        client=client,
        features=None if features is None else list(chosen),
        split=split,
        exposure=exposure,
        weight=weight,
        event=event,
        client_columns=names_of(client_columns),
        unit=unit,
    )
    used = (*columns.named, *columns.client_columns, *chosen)
    columns = columns._replace(unused=table_options.dropped(frame, used, name))
    task_type = task_for(event, task, loss, quantiles, options=loss_options, known=label_scale_from)
    refuse_class_options(task_type, classes, label_names)
    forecast = ForecastReader.of(
        task_type,
        None if split is not None else 1 - train_share(test),
        time=time,
        season=season,
        lags=lags,
        test_from=test_from,
        validation_from=validation_from,
        label_scale=label_scale,
        frequency=frequency,
    )
    if forecast is not None:
        return forecast.federation(frame, columns, table_options, name=name, seed=seed)
    samples = table_samples(
        frame,
        columns,
        place=name,
        title=name,
        label_names=None if label_names is None else tuple(label_names),
        classes=classes,
        scaling=table_options.scaling(),
    ).labelled(task_type, label_scale_from, loss_options)
    return samples.federation(options, train_share(test) if split is None else 1, seed)


def _check_source(frame: Any, client: str | int | None, options: PartitionOptions | None) -> None:
    """Raise DataError for anything but a DataFrame, and ConfigError unless either a column or a
    partition divides its samples among clients."""
    check_frame(frame)
    if (client is None) == (options is None):
        raise ConfigError(
            "give either client= (the column with the client of each sample), or partition= and "
            "num_clients= (to divide the samples among clients); got "
            f"{'neither' if options is None else 'both'}"
        )


def check_frame(frame: pd.DataFrame | Any) -> None:
    """Raise DataError for anything but a DataFrame of pandas."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"expected a pandas DataFrame, got {type(frame).__name__}; for arrays use "
            "fk.data.from_arrays"
        )


def _split(test: Any, name: str) -> np.ndarray | None:
    """The split of each sample; None if ``test`` is a share or a column."""
    return None if np.ndim(test) == 0 else user_array(test, name, "test")
