"""Reads the user's file of numbers or patients in the way of a run's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.data.federated import FederatedData
from fedkin.data.file_samples import CLIENT, LABEL, feature_list, file_samples
from fedkin.data.partition_options import own_partition
from fedkin.data.table_options import TableOptions
from fedkin.task_types.task_type import TaskType


def load_with(
    task_type: TaskType,
    path: Path,
    *,
    label: str = LABEL,
    client: str = CLIENT,
    features: Any = None,
    exposure: str | None = None,
    weight: str | None = None,
    event: str | None = None,
    partition: str | None = None,
    clients: int | None = None,
    scale_from: Any = None,
    rename: Any = None,
    loss_options: Mapping[str, Any] | None = None,
    train_fraction: float = 0.9,
) -> FederatedData:
    """A federation of numbers or patients from a file, with the statistics of a run's labels.

    Args:
        task_type: task type of the run, with statistics.
        path: a table or an npz file.
        label, client, features, exposure, weight, event, partition, clients: as for ``load``.
        scale_from, rename, loss_options, train_fraction: as for ``load``.

    Raises:
        DataError, ConfigError: as for ``load``.
    """
    options = own_partition(
        partition=partition,
        clients=clients,
        classes_per_client=None,
        alpha=None,
        min_samples=None,
        count="clients",
    )
    samples = file_samples(
        path=path,
        label=str(label),
        client=str(client),
        features=None if features is None else feature_list(features),
        owned=options is None,
        label_names=None,
        classes=None,
        options=TableOptions.of(scale_from=scale_from, rename=rename),
        roles={"exposure": exposure, "weight": weight, "event": event},
    )
    samples = replace(samples, task_type=task_type, task_type_is_given=True, risk_sets=loss_options)
    return samples.federation(options, train_fraction, 0)
