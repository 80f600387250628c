"""Readers of published federations: JSON in the layout of LEAF (Caldas et al. 2018) and of the
FedProx family (Li et al. 2020), and npz files with client and split of every sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, Shaped

from fedkin.core.errors import DataError
from fedkin.core.storage import user_path
from fedkin.data.download import Source, data_folders
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import check_finite, check_labels, read_npz

_VALIDATION = ("val", "validation")  # folders beside train and test
Samples = Shaped[np.ndarray, "_ ..."] | list[str]  # of one user: numbers, or sentences


@dataclass(frozen=True)
class LeafFiles:
    """Contents of the files: first all training samples, then all test samples, then those for
    validation where there are any, each by user in the order of the files; an npz file keeps its
    own order."""

    users: tuple[str, ...]
    x: Float32[np.ndarray, "M ..."] | tuple[str, ...]  # numbers, or one text per sample
    y: Int[np.ndarray, "M"]
    train: Ragged
    test: Ragged
    validation: Ragged | None = None


def leaf(path: str | Path, classes: int | None = None) -> FederatedData:
    """A federation from a folder in LEAF's layout, as :func:`read_leaf` has it; x float32 [M, ...],
    unscaled.

    ``classes`` is C where it is not the largest label + 1; it must be given where labels exceed the
    number of samples. Users are the clients, in the order of the files. Raises DataError as
    read_leaf, and where x is text, which has no encoding here.
    """
    folder = user_path(path)
    files = read_leaf(folder)
    if isinstance(files.x, tuple):
        raise DataError(
            f"{folder}: expected x of numbers, got text such as {files.x[0][:40]!r}; encode it "
            "first"
        )
    y = check_labels(files.y, classes, folder)
    top = int(y.max())
    if classes is None and top >= len(y):
        raise DataError(
            f"{folder}: label {top} is more than the {len(y)} samples allow; correct it, or set "
            f"classes={top + 1}"
        )
    C = top + 1 if classes is None else classes
    parts = {"train": files.train, "test": files.test, "validation": files.validation}
    return FederatedData(folder.name, files.x, y, C, **parts, client_names=files.users)


def read_leaf(folder: Path) -> LeafFiles:
    """The samples of ``folder/train/*.json`` and ``folder/test/*.json`` (any number of files, in
    the order of their names), or else of the one ``*train*.json`` and the one ``*test*.json`` in
    ``folder``. A folder ``val`` or ``validation`` beside ``train`` has validation samples.

    Each file is ``{"users": [..], "user_data": {user: {"x": [..], "y": [..]}}, "num_samples":
    [..]}``; num_samples may be left out. Labels are whole numbers from 0, also written as 1.0 or
    "1". A user may lack test samples. Raises DataError, naming file and user, for anything else:
    damage, missing keys, samples of different shapes, counts that disagree, users that occur twice,
    have no training sample, or are only tested.
    """
    files = split_files(folder)
    if files is None:
        raise DataError(
            f"{folder}: expected train/*.json and test/*.json, or one *train*.json and one "
            f"*test*.json; got {_listing(folder)}"
        )
    return read_leaf_files(
        *files, [path for name in _VALIDATION for path in _visible(folder / name, "*.json")]
    )


def split_files(folder: Path) -> tuple[list[Path], list[Path]] | None:
    """Training and test files; None where the folder is not in LEAF's layout. Reads no file."""
    below = _visible(folder / "train", "*.json"), _visible(folder / "test", "*.json")
    if all(below):
        return below
    beside = _visible(folder, "*train*.json"), _visible(folder, "*test*.json")
    return beside if [len(paths) for paths in beside] == [1, 1] and beside[0] != beside[1] else None


def find_leaf_folder(source: Source) -> Path | None:
    """The first folder of a data set that is in LEAF's layout, whatever the names of its files."""
    places = (
        root / folder / sub
        for root in data_folders()
        for folder in source.folders
        for sub in source.sub
    )
    return next((place for place in places if split_files(place)), None)


def read_leaf_files(
    train: Sequence[Path], test: Sequence[Path], validation: Sequence[Path] = ()
) -> LeafFiles:
    """As :func:`read_leaf`, from the given files.

    Args:
        train, test: files of training and of test samples.
        validation: files of validation samples; none: there is no such split.
    """
    parts = _Part(), _Part(), _Part()
    for part, paths in zip(parts, (train, test, validation), strict=True):
        for path in paths:
            part.read(path)
    if not parts[0].y:
        raise DataError(f"{train[0]}: expected at least one user, found none")
    for user in parts[0].y:
        if not parts[0].y[user].size:
            raise DataError(f"{parts[0].origin[user]}: user {user!r} has no training sample")
    for what, part in zip(("test", "validation"), parts[1:], strict=True):
        for user in part.y:
            if user not in parts[0].y:
                raise DataError(
                    f"{part.origin[user]}: user {user!r} has {what} samples but no training samples"
                )
    return _joined(*(parts if validation else parts[:2]))


@dataclass
class _Part:
    """The users of one split, in order of appearance."""

    x: dict[str, Samples] = field(default_factory=dict)
    y: dict[str, Int[np.ndarray, "_"]] = field(default_factory=dict)
    origin: dict[str, Path] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        for user, x, y in _users(path):
            if user in self.origin:
                raise DataError(f"{path}: user {user!r} occurs twice, first in {self.origin[user]}")
            self.x[user] = x
            self.y[user] = y
            self.origin[user] = path


def _joined(train: _Part, *others: _Part) -> LeafFiles:
    users = tuple(train.y)
    none = np.zeros(0, np.int64)
    known = [(part, user) for part in (train, *others) for user in users if user in part.x]
    x = [part.x[user] for part, user in known]
    origin = [(user, part.origin[user]) for part, user in known]
    labels = [[part.y.get(user, none) for user in users] for part in (train, *others)]
    y = [one for part in labels for one in part]
    start = 0
    parts = []
    for part in labels:
        sizes = [len(one) for one in part]
        parts.append(
            Ragged(
                np.arange(start, start := start + sum(sizes)),
                np.cumsum([0, *sizes], dtype=np.int64),
            )
        )
    return LeafFiles(users, _joined_samples(x, origin), np.concatenate(y), *parts)


def _joined_samples(
    samples: list[Samples], origin: list[tuple[str, Path]]
) -> Float32[np.ndarray, "M ..."] | tuple[str, ...]:
    """The samples of all users, concatenated; DataError where types or shapes differ."""
    first = ""
    known = None
    for x, (user, path) in zip(samples, origin, strict=True):
        kind = "text" if isinstance(x, list) else f"{list(x.shape[1:])} numbers"
        if not len(x):
            continue
        first, known = (first, known) if known else (user, kind)
        if kind != known:
            raise DataError(
                f"{path}: user {user!r} has samples of {kind}, user {first!r} of {known}"
            )
    if known == "text":
        return tuple(text for x in samples for text in x)
    return np.concatenate([x for x in samples if len(x)])


def _users(path: Path) -> Iterable[tuple[str, Samples, Int[np.ndarray, "_"]]]:
    """Every user of a file with samples and labels, checked."""
    content = _json(path)
    users = _list(content, "users", path)
    counts = content.get("num_samples")
    data = content.get("user_data")
    if not isinstance(data, dict):
        raise DataError(
            f"{path}: expected the key 'user_data' with an object for every user, found "
            f"{sorted(content)}"
        )
    names = [str(user) for user in users]
    unlisted = sorted(data.keys() - set(names))
    if unlisted:
        raise DataError(f"{path}: user {unlisted[0]!r} has data but is not among 'users'")
    if counts is not None and (not isinstance(counts, list) or len(counts) != len(users)):
        raise DataError(
            f"{path}: 'num_samples' must be a list of {len(users)} counts, one for each user"
        )
    for place, user in enumerate(names):
        x, y = _samples(data.get(user), f"{path}: user {user!r}")
        if counts is not None and counts[place] != len(y):
            raise DataError(
                f"{path}: user {user!r} has {len(y)} samples, num_samples says {counts[place]!r}"
            )
        yield user, x, y


def _samples(entry: Any, who: str) -> tuple[Samples, Int[np.ndarray, "n"]]:
    if not isinstance(entry, dict) or not {"x", "y"} <= entry.keys():
        keys = sorted(entry) if isinstance(entry, dict) else "no such object"
        raise DataError(f"{who}: expected 'user_data' with keys x and y, found {keys}")
    x = entry["x"]
    y = entry["y"]
    if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
        raise DataError(
            f"{who}: x and y must be lists of one length, got {_size(x)} and {_size(y)}"
        )
    labels = np.array(
        [_label(value, f"{who}: sample {row}") for row, value in enumerate(y)], np.int64
    )
    return (x if x and all(isinstance(text, str) for text in x) else _numbers(x, who)), labels


def _label(value: Any, where: str) -> int:
    """A label from a whole number, or from one written with a point or as text."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 2**53 or number != int(number):
        raise DataError(f"{where}: labels must be whole numbers from 0, got {value!r}")
    return int(number)


def _numbers(x: list[Any], who: str) -> Float32[np.ndarray, "n ..."]:
    try:
        array = np.array(x)
    except ValueError as error:
        lengths = sorted({len(row) for row in x if isinstance(row, list)})
        raise DataError(f"{who}: samples differ in shape, lengths {lengths[:5]}") from error
    if x and (array.ndim < 2 or not array.size or array.dtype.kind not in "iuf"):
        raise DataError(
            f"{who}: x must be lists of numbers, or texts; sample 0 is {str(x[0])[:40]}"
        )
    with np.errstate(over="ignore"):
        small = array.astype(np.float32)
    if not np.isfinite(small).all():
        row = int(np.argmin(np.isfinite(small).reshape(len(small), -1).all(axis=1)))
        raise DataError(
            f"{who}: features must be finite, sample {row} holds NaN, infinity, or a number over "
            "3.4e38"
        )
    return small


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(
            path.read_bytes(), object_pairs_hook=lambda pairs: _distinct(pairs, path)
        )
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: expected a JSON file, found no such file") from None
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(
            f"{path}: expected a JSON file, but it is damaged or of another kind ({error})"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: expected a JSON object with users and user_data, got a "
            f"{type(content).__name__}"
        )
    return content


def _distinct(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    """The entries; DataError for a repeated key, of which json would keep the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path}: {twice!r} occurs twice in one object; probably a user was written twice"
        )
    return content


def _list(content: dict[str, Any], key: str, path: Path) -> list[Any]:
    if not isinstance(content.get(key), list):
        raise DataError(f"{path}: expected the key {key!r} with a list, found {sorted(content)}")
    return content[key]


def _size(value: Any) -> str:
    return f"{len(value)} entries" if isinstance(value, list) else type(value).__name__


def _visible(folder: Path, pattern: str) -> list[Path]:
    """Files that match, sorted by name; without hidden files, which file managers create."""
    return sorted(
        path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")
    )


def _listing(folder: Path) -> str:
    if not folder.is_dir():
        return "no such folder"
    names = sorted(path.name for path in folder.iterdir())
    return (
        ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "an empty folder"
    )


def read_leaf_arrays(path: Path, classes: int) -> LeafFiles:
    """The samples of an npz file: x [M, ...] numbers, y, client_id (into users), split (0 train, 1
    test), users.

    Raises DataError, naming the file, where one is missing, damaged, out of range, or of another
    length.
    """
    arrays = read_npz(path, ("x", "y", "client_id", "split", "users"))
    x = arrays["x"]
    users = arrays["users"]
    if x.ndim < 2 or x.dtype.kind not in "iuf" or users.ndim != 1:
        raise DataError(
            f"{path}: expected x [M, ...] of numbers and users [N], got {x.dtype} of shape "
            f"{x.shape}"
        )
    for name in ("y", "client_id", "split"):
        if arrays[name].shape != (len(x),):
            raise DataError(
                f"{path}: x has {len(x)} samples, {name} has shape {arrays[name].shape}"
            )
    with np.errstate(over="ignore"):
        small = x.astype(np.float32)
    check_finite(small, path, "NaN, infinity, or a number over 3.4e38")
    y = check_labels(arrays["y"], classes, path)
    owner = arrays["client_id"]
    tested = arrays["split"] == 1
    for name, limit in (("client_id", len(users)), ("split", 2)):
        wrong = np.flatnonzero(~np.isin(arrays[name], np.arange(limit)))
        if len(wrong):
            raise DataError(
                f"{path}: {name} must be from 0 to {limit - 1}, row {wrong[0]} has "
                f"{arrays[name][wrong[0]]}"
            )
    parts = (
        Ragged.of([np.flatnonzero(part & (owner == u)) for u in range(len(users))])
        for part in (~tested, tested)
    )
    return LeafFiles(tuple(map(str, users)), small, y, *parts)
