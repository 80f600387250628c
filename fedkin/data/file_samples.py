"""The samples of a user's file: a table, or arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.column_checks import check_columns
from fedkin.data.column_lists import column_list
from fedkin.data.files import read_npy_folder, read_npz, read_table, table_kind
from fedkin.data.forecast_samples import ForecastReader
from fedkin.data.labels import Names
from fedkin.data.parquet import column_names, parquet_samples
from fedkin.data.table_options import TableOptions
from fedkin.data.tables import Columns, column_facts, table_samples
from fedkin.data.user_samples import OwnSamples

# Default names of columns.
LABEL = "y"
CLIENT = "client_id"
SPLIT = "split"
OTHERS = ", or a folder in LEAF's layout"
_CURES = {
    LABEL: "name the column of the labels with label=",
    CLIENT: "name the column of the clients with client=, "
    "or divide the samples with partition= and clients=",
}


def feature_list(features: Any) -> list[str]:
    """The names of the feature columns. Raises ConfigError for anything but names."""
    return [str(name) for name in column_list("features", features, "['age', 'weight']")]


def file_samples(
    *,
    path: Path,
    label: str,
    client: str,
    features: Sequence[str] | None,
    owned: bool,
    label_names: Names | None,
    classes: int | None,
    options: TableOptions,
    roles: Mapping[str, Any] | None = None,
    forecast: ForecastReader | None = None,
    client_columns: tuple[str, ...] = (),
) -> OwnSamples:
    """The samples of a file, or of a folder of arrays.

    Args:
        path: the file or folder.
        label: column or array of the labels.
        client: column or array of the clients.
        features: columns of the features; None for all other columns.
        owned: whether samples have clients; otherwise a partition assigns them.
        label_names: names of the classes.
        classes: number of classes; None if it follows from the labels.
        options: options of tables.
        roles: columns or arrays by further roles (``user_samples.ROLES``); None for a role without
            one.
        forecast: makes the samples of a forecast; None for another task.
        client_columns: columns of facts about clients.
    """
    named = {role: str(name) for role, name in (roles or {}).items() if name is not None}
    kind = "npz" if path.is_dir() else table_kind(path, OTHERS)
    if kind == "npz":
        if client_columns:
            raise ConfigError(
                f"client_columns = {list(client_columns)} applies to the columns of a table, but "
                f"{path} has arrays; leave it out"
            )
        samples = _array_samples(
            path,
            label,
            client=client if owned else None,
            features=features,
            roles=named,
        )
        return replace(samples, label_names=label_names, classes=classes)
    if kind == "parquet" and forecast is None:
        table = column_names(path)
    else:
        table = read_table(path, options.file_name(client))
    table = options.rename(table, path)
    needed = [label, client] if owned else [label]
    needed += [*named.values(), *client_columns]
    check_columns(table, needed, path, _CURES)
    dropped = options.dropped(table, [*needed, *(features or ())], path)
    columns = Columns(
        label=label,
        client=client if owned else None,
        features=features,
        split=SPLIT if SPLIT in table and SPLIT not in dropped else None,
        unused=(client, *dropped),
        client_columns=client_columns,
        **named,
    )
    scaling = options.scaling()
    if forecast is not None:
        return forecast.samples(table, columns, scaling=scaling, place=path, title=path.stem)
    if kind == "parquet":
        return parquet_samples(
            path,
            table,
            columns,
            options,
            label_names=label_names,
            classes=classes,
            scaling=scaling,
        )
    return table_samples(
        table,
        columns,
        place=path,
        title=path.stem,
        label_names=label_names,
        classes=classes,
        scaling=scaling,
    )


def _array_samples(
    path: Path,
    label: str,
    client: str | None,
    features: Sequence[str] | None,
    roles: Mapping[str, Any],
) -> OwnSamples:
    """The user's samples from an npz file, or from a folder of npy files. ``roles`` names the
    arrays of further roles."""
    if features is not None and len(features) != 1:
        raise ConfigError(f"{path}: features must name one array, got {list(features)}")
    x = "x" if features is None else features[0]
    arrays = read_npy_folder(path, (x,)) if path.is_dir() else read_npz(path, mapped=(x,))
    for name in (x, label, client, *roles.values()):
        if name is not None and name not in arrays:
            message = f"{path}: {unknown('array', name, arrays)}"
            if name in _CURES:
                message += f"; {_CURES[name]}"
            raise DataError(message)
    by_role: dict[str, Any] = {role: arrays[name] for role, name in roles.items()}
    return OwnSamples(
        place=path,
        title=path.stem,
        x=arrays[x],
        labels=arrays[label],
        owners=None if client is None else arrays[client],
        split=arrays.get(SPLIT),
        columns=column_facts(Columns(label, client, **roles)),
        **by_role,
    )
