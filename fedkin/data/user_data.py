"""The user's own data, from one file, or from a folder in LEAF's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import check_finite, check_labels, read_npz, read_table
from fedkin.data.leaf import leaf
from fedkin.data.partition import by_writer, split_train_test
from fedkin.data.partition_options import checked

TABLES = (".csv", ".gz", ".parquet", ".pq")


@checked
def load(
    path: str | Path,
    *,
    classes: int | None = None,
    train_fraction: float | int | None = None,
    seed: int | None = None,
) -> FederatedData:
    """A federation from a file with one entry per sample, or from a folder in LEAF's layout.

    * ``x``: features, kept as float32. npz: an array [M, ...] of floats or integers; uint8 are pixels and scaled to
      0 .. 1. Tables: every other column, in order, is one numeric feature, whatever its name
    * ``y``: label, a whole number from 0
    * ``client_id``: the client of the sample, a number or a name. Clients are numbered in ascending order
    * ``split``: ``train`` or ``test``, or 0 or 1. Without it, each client's samples are split at random

    A folder has ``train/*.json`` and ``test/*.json``, or one ``*train*.json`` and one ``*test*.json``, as LEAF and the
    FedProx family publish theirs: ``{"users": [..], "user_data": {user: {"x": [..], "y": [..]}}}``, x of numbers.
    Nothing is scaled, and clients keep the order of the files. Features that must stay integers, such as the tokens of
    text, can be given to FederatedData itself.

    Args:
        path: an ``.npz``, ``.csv`` (or ``.csv.gz``) or ``.parquet`` file, or a folder.
        classes: C; None for the largest label + 1. Must be given where labels exceed the number of samples.
        train_fraction: each client's share of training samples without ``split``; None for 0.9.
        seed: of the split without ``split``; None for 0.

    Raises:
        DataError: anything that is missing, damaged, out of range or not finite; the file is named.
        ConfigError: ``train_fraction`` or ``seed`` for data with their own split.
    """
    path = Path(path)
    if path.is_dir():
        _refuse_split(path, train_fraction, seed)
        return leaf(path, classes)
    if path.suffix == ".npz":
        arrays = read_npz(path, ("x", "y", "client_id"))
    elif path.suffix in TABLES:
        arrays = _columns(path)
    else:
        raise DataError(
            f"{path}: expected a file that ends in .npz, {', '.join(TABLES)}, or a folder in LEAF's layout; "
            f"got {path.suffix or 'no ending'}{'' if path.exists() else ', and there is no such file'}"
        )
    x = _features(arrays["x"], path)
    _check_lengths(arrays, path)
    _check_owners(arrays["client_id"], path)
    y = check_labels(arrays["y"], classes, path)
    owned, names = by_writer(arrays["client_id"]), np.unique(arrays["client_id"])
    if "split" in arrays:
        _refuse_split(path, train_fraction, seed)
        tested = _is_test(arrays["split"], path)
        train, test = _select(owned, ~tested), _select(owned, tested)
    else:
        fraction = 0.9 if train_fraction is None else train_fraction
        train, test = split_train_test(owned, Stream(seed or 0, purpose="data/split"), fraction)
    top = _classes(y, path) if classes is None else classes
    return FederatedData(path.stem, x, y, top, train, test, client_names=tuple(str(name) for name in names))


def _refuse_split(path: Path, train_fraction: float | int | None, seed: int | None) -> None:
    """Refuse (ConfigError) options that would be silently ignored."""
    for name, value in (("train_fraction", train_fraction), ("seed", seed)):
        if value is not None:
            raise ConfigError(f"{name} = {value} does not apply to {path}, which has its own split; leave it out")


def _classes(y: Int[np.ndarray, "M"], path: Path) -> int:
    """The largest label + 1; DataError where it exceeds the number of samples, since one wrong entry would set it."""
    top = int(y.max())
    if top >= len(y):
        raise DataError(
            f"{path}: label {top} in row {int(y.argmax())} is more than the {len(y)} samples allow; "
            f"correct it, or set classes={top + 1}"
        )
    return top + 1


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a table as the arrays of an npz file."""
    table = read_table(path)
    missing = [name for name in ("y", "client_id") if name not in table]
    if missing:
        raise DataError(f"{path}: expected columns y and client_id, found {list(table.columns)[:12]}")
    unnamed = [name for name in table.columns if str(name).startswith("Unnamed: ")]
    if unnamed:  # it would become a feature that identifies the samples
        raise DataError(
            f"{path}: expected a name for every column, got {unnamed[0]!r}: probably the row numbers that pandas "
            "writes; leave them out with to_csv(..., index=False)"
        )
    features = table.drop(columns=["y", "client_id", "split"], errors="ignore")
    wrong = [name for name, kind in features.dtypes.items() if kind.kind not in "iufb"]
    if wrong or not len(features.columns):
        raise DataError(f"{path}: expected numeric feature columns, got {f'{wrong[0]} of text' if wrong else 'none'}")
    _check_owners(table["client_id"].to_numpy(), path)
    known = {name: _plain(table[name].to_numpy()) for name in ("y", "client_id", "split") if name in table}
    return {"x": features.to_numpy(np.float64), **known}


def _check_owners(owners: Shaped[np.ndarray, "M"], path: Path) -> None:
    if owners.dtype.kind not in "fO":  # nothing can be missing
        return
    import pandas as pd

    nameless = np.flatnonzero(pd.isna(owners))
    if len(nameless):
        raise DataError(f"{path}: client_id is empty in row {nameless[0]} ({len(nameless)} such rows)")


def _plain(column: np.ndarray) -> np.ndarray:
    """Text columns come as objects; NumPy's own strings are what the rest expects."""
    return column.astype(str) if column.dtype == object else column


def _features(x: Shaped[np.ndarray, "..."], path: Path) -> Float32[np.ndarray, "M ..."]:
    if x.ndim < 2 or x.dtype.kind not in "iuf" or not x.size:
        raise DataError(f"{path}: x must be numbers of shape [M, ...], got {x.dtype} of shape {x.shape}")
    if x.dtype == np.uint8:
        return x.astype(np.float32) / np.float32(255)
    check_finite(x, path)
    with np.errstate(over="ignore"):
        small = x.astype(np.float32)
    check_finite(small, path, "a number too large for float32, over 3.4e38; scale the features")
    return small


def _check_lengths(arrays: dict[str, np.ndarray], path: Path) -> None:
    for name in arrays.keys() & {"y", "client_id", "split"}:
        if arrays[name].shape != (len(arrays["x"]),):
            raise DataError(f"{path}: x has {len(arrays['x'])} samples, {name} has shape {arrays[name].shape}")


def _is_test(split: Shaped[np.ndarray, "M"], path: Path) -> Bool[np.ndarray, "M"]:
    train, test = ("train", "test") if split.dtype.kind == "U" else (0, 1)
    wrong = (split != train) & (split != test)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{path}: split must be train or test, or 0 or 1; row {row} has {split[row]}")
    return split == test


def _select(owned: Ragged, selected: Bool[np.ndarray, "M"]) -> Ragged:
    """The selected rows of every client."""
    rows: Int[np.ndarray, "s"] = owned.rows[selected[owned.rows]]
    before = np.concatenate([[0], np.cumsum(selected[owned.rows])])
    return Ragged(rows, before[owned.offsets].astype(np.int64))
