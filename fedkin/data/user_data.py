"""The user's own data, from one file, from a folder of arrays, packed or not, or from one in LEAF's
layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.storage import user_path
from fedkin.data.federated import FederatedData
from fedkin.data.files import ENDINGS_OF, read_npy_folder, read_npz, read_table, table_kind
from fedkin.data.leaf import leaf
from fedkin.data.own_samples import OwnSamples, own_partition
from fedkin.data.packed import is_packed, open_packed
from fedkin.data.parquet import column_names, parquet_samples
from fedkin.data.partition_options import PartitionOptions, checked
from fedkin.data.tables import Columns, check_columns, column_facts, table_samples

ENDINGS = tuple(ending for endings in ENDINGS_OF.values() for ending in endings)
# columns where no others are named
LABEL = "y"
CLIENT = "client_id"
SPLIT = "split"


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
) -> FederatedData:
    """A federation from a file with one entry per sample, or from a folder in LEAF's layout.

    * ``x``: features, kept as float32. npz: an array [M, ...] of floats or integers; uint8 are
      pixels and scaled to
      0 .. 1. Tables: every other column, in order, is one numeric feature, whatever its name
    * ``y``: label, a whole number from 0, text (numbered in sorted order, and remembered as
      ``label_names``) or a boolean
    * ``client_id``: the client of the sample, a number or a name. Clients are numbered in ascending
      order
    * ``split``: ``train``, ``test`` or ``validation``, or 0, 1 or 2. Without it, each client's
      samples are split at random into training and test samples

    A folder has ``train/*.json`` and ``test/*.json`` (and perhaps ``val/*.json``), or one
    ``*train*.json`` and one ``*test*.json``, as LEAF and the FedProx family publish theirs:
    ``{"users": [..], "user_data": {user: {"x": [..], "y": [..]}}}``, x of numbers. Nothing is
    scaled, and clients keep the order of the files. Features that must stay integers, such as the
    tokens of text, can be given to ``from_arrays``.

    A folder of ``x.npy``, ``y.npy``, ``client_id.npy`` and perhaps ``split.npy`` is read as an npz
    file of these.

    A folder that ``pack`` or ``fedkin data make`` wrote is read where it lies: its data may be
    larger than memory.

    Args:
        path: an ``.npz``, ``.csv``, ``.tsv`` (each also with ``.gz``) or ``.parquet`` file, or a
            folder.
        classes: C; None for the largest label + 1. Must be given where labels exceed the number of
            samples.
        train_fraction: each client's share of training samples without ``split``; None for 0.9.
        seed: of the split without ``split``, and of a partition; None for 0.
        label: the column (or array of an npz file) of the labels; None for ``y``. A number is the
            column of that name.
        client: the column of the clients; None for ``client_id``.
        features: the columns of the features, in this order (of an npz file one array); None for
            all others (``x``).
        label_names: names of the classes 0, 1, ..; None for the text that occurs. Sites that train
            together must name the same, so that all number their labels alike.
        partition: divides the samples over clients by their labels, whosever they are:
            ``dirichlet``, ``shards``, ``power_law``, ``blocks`` or ``iid``, as for the named image
            sets.
        clients: N, of a partition.
        classes_per_client: of the partitions ``shards``, ``power_law`` and ``blocks``; None for 2.
        alpha: concentration of the partition ``dirichlet``; None for 0.5.
        min_samples: what every client of ``dirichlet`` has at least; None for 10.

    Raises:
        DataError: anything that is missing, damaged, out of range or not finite; the file is named.
        ConfigError: ``train_fraction`` or ``seed`` for data with their own split; columns of a
            folder; ``client`` and a partition.
    """
    path = user_path(path)
    features = None if features is None else _feature_names(features)
    options = own_partition(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
        count="clients",
    )
    if client is not None and options is not None:
        raise ConfigError(
            f"client = {client} does not apply to partition = {partition}; leave one of them out"
        )
    if path.is_dir() and not has_arrays(path):
        _refuse_split(path, train_fraction, seed)
        columns = {
            "label": label,
            "client": client,
            "features": features,
            "label_names": label_names,
        }
        packed = is_packed(path)
        _refuse_options_of_file(
            path, {**columns, "partition": partition, **({"classes": classes} if packed else {})}
        )
        return open_packed(path) if packed else leaf(path, classes)
    names = None if label_names is None else tuple(label_names)
    samples = _samples(
        path=path,
        label=label,
        client=client,
        features=features,
        partition=options,
        more={"label_names": names, "classes": classes},
    )
    if samples.split is not None:
        _refuse_split(path, train_fraction, seed if options is None else None)
    fraction = 0.9 if train_fraction is None else train_fraction
    return samples.federation(options, fraction, seed or 0)


def _feature_names(features: Any) -> list[str]:
    """The columns of the features as text. Raises ConfigError for what is no list of names."""
    names = [features] if isinstance(features, (str, int)) else features
    if not isinstance(names, (list, tuple)) or not all(
        isinstance(name, (str, int)) for name in names
    ):
        raise ConfigError(
            f"features must be a list of columns, such as ['age', 'weight'], got {features!r}"
        )
    return [str(name) for name in names]


def _samples(
    path: Path,
    label: str | int | None,
    client: str | int | None,
    features: Sequence[str] | None,
    partition: PartitionOptions | None,
    more: dict,
) -> OwnSamples:
    """The samples of a file."""
    label = LABEL if label is None else str(label)
    client = CLIENT if client is None else str(client)
    kind = "npz" if path.is_dir() else table_kind(path, ", or a folder in LEAF's layout")
    if kind == "npz":
        return _array_samples(
            path=path,
            label=label,
            client=client,
            features=features,
            owned=partition is None,
            more=more,
        )
    table = column_names(path) if kind == "parquet" else read_table(path, client)
    check_columns(table, [label, *([] if partition else [client])], path, _CURES)
    split = SPLIT if SPLIT in table else None
    columns = Columns(
        label=label,
        client=None if partition else client,
        features=features,
        split=split,
        unused=(client,),
    )
    if kind == "parquet":
        return parquet_samples(path, table, columns, **more)
    return table_samples(table, columns, path, path.stem, **more)


_CURES = {
    LABEL: "name the column of the labels with label=",
    CLIENT: "name the column that says whose a sample is with client=, or divide samples with partition= and clients=",
}


def has_arrays(path: Path) -> bool:
    """Whether a folder has samples as one npy file for each array, and is not packed."""
    return not is_packed(path) and any(path.glob("*.npy"))


def _array_samples(
    path: Path, label: str, client: str, features: Sequence[str] | None, owned: bool, more: dict
) -> OwnSamples:
    """The samples of an npz file, or of a folder of npy files."""
    if features is not None and len(features) != 1:
        raise ConfigError(f"{path}: features must name one array, got {list(features)}")
    x = "x" if features is None else features[0]
    arrays = read_npy_folder(path, (x,)) if path.is_dir() else read_npz(path, mapped=(x,))
    for name in (x, label, *([client] if owned else [])):
        if name not in arrays:
            cure = _CURES.get(name, "")
            raise DataError(f"{path}: {unknown('array', name, arrays)}{cure and f'; {cure}'}")
    owners = arrays[client] if owned else None
    facts = column_facts(Columns(label, client if owned else None))
    return OwnSamples(
        place=path,
        title=path.stem,
        x=arrays[x],
        labels=arrays[label],
        owners=owners,
        split=arrays.get(SPLIT),
        columns=facts,
        **more,
    )


def _refuse_split(path: Path, train_fraction: float | int | None, seed: int | None) -> None:
    """Refuse (ConfigError) options that would be silently ignored."""
    for name, value in (("train_fraction", train_fraction), ("seed", seed)):
        if value is not None:
            raise ConfigError(
                f"{name} = {value} does not apply to {path}, which has its own split; leave it out"
            )


def _refuse_options_of_file(path: Path, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            kind = "a folder of packed data" if is_packed(path) else "a folder in LEAF's layout"
            raise ConfigError(f"{name} = {value} does not apply to {path}, {kind}; leave it out")
