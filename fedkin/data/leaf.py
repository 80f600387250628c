"""Readers of published federations: JSON in the layout of LEAF (Caldas et al. 2018) and of
FedProx's authors (Li et al. 2020), and npz files with client and split of every sample."""

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

# Names of folders with validation samples.
_VALIDATION = ("val", "validation")
# The samples of a user: numbers, or sentences.
Samples = Shaped[np.ndarray, "_ ..."] | list[str]


@dataclass(frozen=True)
class LeafFiles:
    """The content of a federation's files.

    Samples from JSON files are in this order: all training samples, all test samples, all
    validation samples, and within each of these parts the users in the order of the files. Samples
    from an npz file keep the order of its rows.

    Attributes:
        users: names of the N users.
        x: numbers, or a text for each sample.
        y: labels.
        train, test, validation: rows of each user's samples; ``validation`` is None if there is no
            such split.
    """

    users: tuple[str, ...]
    x: Float32[np.ndarray, "M ..."] | tuple[str, ...]
    y: Int[np.ndarray, "M"]
    train: Ragged
    test: Ragged
    validation: Ragged | None = None


def leaf(path: str | Path, classes: int | None = None) -> FederatedData:
    """A federation from a folder in LEAF's layout, which :func:`read_leaf` describes.

    Args:
        path: path of the folder.
        classes: number of classes C; None for the largest label + 1. It must be given if a label
            exceeds the number of samples.

    Returns:
        The federation, with x float32 [M, ...] as in the files. Users are the clients, in the order
        of the files.

    Raises:
        DataError: as in ``read_leaf``; or x is text, which is not encoded here.
    """
    folder = user_path(path)
    files = read_leaf(folder)
    if isinstance(files.x, tuple):
        raise DataError(
            f"{folder}: expected numbers as x, got text such as {files.x[0][:40]!r}; encode it "
            "first"
        )
    y = check_labels(files.y, classes, folder)
    top = int(y.max())
    if classes is None and top >= len(y):
        raise DataError(
            f"{folder}: label {top} is larger than the number of samples, {len(y)}; correct it, or "
            f"set classes={top + 1}"
        )
    return FederatedData(
        name=folder.name,
        x=files.x,
        y=y,
        classes=top + 1 if classes is None else classes,
        train=files.train,
        test=files.test,
        validation=files.validation,
        client_names=files.users,
    )


def read_leaf(folder: Path) -> LeafFiles:
    """Read the samples of a folder in LEAF's layout.

    The files are ``folder/train/*.json`` and ``folder/test/*.json``, any number of them in the
    order of their names; or else one ``*train*.json`` and one ``*test*.json`` in the folder.
    ``folder/val`` or ``folder/validation`` has validation samples.

    Each file is ``{"users": [..], "user_data": {user: {"x": [..], "y": [..]}}, "num_samples":
    [..]}``; num_samples may be left out. Labels are whole numbers from 0, also written as 1.0 or
    "1". A user may have no test samples.

    Raises:
        DataError: the layout differs, a file is damaged, keys are missing, samples have different
            shapes, counts disagree, or users occur twice or have no training sample; the message
            names file and user.
    """
    files = split_files(folder)
    if files is None:
        raise DataError(
            f"{folder}: expected train/*.json and test/*.json, or one *train*.json and one "
            f"*test*.json; got {_listing(folder)}"
        )
    train, test = files
    validation = [path for name in _VALIDATION for path in _visible(folder / name, "*.json")]
    return read_leaf_files(train, test, validation)


def split_files(folder: Path) -> tuple[list[Path], list[Path]] | None:
    """Training and test files; None if the folder is not in LEAF's layout. No file is read."""
    train = _visible(folder / "train", "*.json")
    test = _visible(folder / "test", "*.json")
    if train and test:
        return train, test
    train = _visible(folder, "*train*.json")
    test = _visible(folder, "*test*.json")
    if len(train) == 1 and len(test) == 1 and train != test:
        return train, test
    return None


def find_leaf_folder(source: Source) -> Path | None:
    """The first folder of a data set that is in LEAF's layout; None if there is none."""
    for root in data_folders():
        for folder in source.folders:
            for sub in source.sub:
                place = root / folder / sub
                if split_files(place):
                    return place
    return None


def read_leaf_files(
    train: Sequence[Path], test: Sequence[Path], validation: Sequence[Path] = ()
) -> LeafFiles:
    """Read the samples of the given files, as in :func:`read_leaf`.

    Args:
        train, test: files of training and of test samples.
        validation: files of validation samples; empty if there is no such split.

    Raises:
        DataError: the errors of :func:`read_leaf`.
    """
    training = _Part.of(train)
    tested = _Part.of(test)
    validated = _Part.of(validation)
    if not training.y:
        raise DataError(f"{train[0]}: expected at least one user, found none")
    for user, y in training.y.items():
        if not y.size:
            raise DataError(f"{training.origin[user]}: user {user!r} has no training sample")
    for what, part in (("test", tested), ("validation", validated)):
        for user in part.y:
            if user not in training.y:
                raise DataError(
                    f"{part.origin[user]}: user {user!r} has {what} samples but no training samples"
                )
    return _joined(training, tested, validated if validation else None)


@dataclass
class _Part:
    """The users of one split (training, test or validation) in order of appearance, with the
    samples, labels and file of each."""

    x: dict[str, Samples] = field(default_factory=dict)
    y: dict[str, Int[np.ndarray, "_"]] = field(default_factory=dict)
    origin: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[Path]) -> _Part:
        """Read one split from its files."""
        part = cls()
        for path in paths:
            part.read(path)
        return part

    def read(self, path: Path) -> None:
        """Add the users of one JSON file, with their samples, to this split."""
        for user, x, y in _users(path):
            if user in self.origin:
                raise DataError(f"{path}: user {user!r} occurs twice, first in {self.origin[user]}")
            self.x[user] = x
            self.y[user] = y
            self.origin[user] = path


def _joined(train: _Part, test: _Part, validation: _Part | None) -> LeafFiles:
    """Join the samples of all splits, one split after another."""
    users = tuple(train.y)
    x = []
    origin = []
    y = []
    indices: list[Ragged] = []
    start = 0
    for part in (train, test) if validation is None else (train, test, validation):
        sizes = []
        for user in users:
            if user in part.x:
                x.append(part.x[user])
                origin.append((user, part.origin[user]))
                y.append(part.y[user])
                sizes.append(len(part.y[user]))
            else:
                sizes.append(0)
        end = start + sum(sizes)
        indices.append(Ragged(np.arange(start, end), np.cumsum([0, *sizes], dtype=np.int64)))
        start = end
    return LeafFiles(
        users=users,
        x=_joined_samples(x, origin),
        y=np.concatenate(y),
        train=indices[0],
        test=indices[1],
        validation=None if validation is None else indices[2],
    )


def _joined_samples(
    samples: list[Samples], origin: list[tuple[str, Path]]
) -> Float32[np.ndarray, "M ..."] | tuple[str, ...]:
    """The samples of all users, concatenated. Raises DataError if types or shapes differ."""
    first_user = ""
    first_kind = None
    for x, (user, path) in zip(samples, origin, strict=True):
        if not len(x):
            continue
        kind = "text" if isinstance(x, list) else f"{list(x.shape[1:])} numbers"
        if first_kind is None:
            first_user = user
            first_kind = kind
        if kind != first_kind:
            raise DataError(
                f"{path}: user {user!r} has samples of {kind}, but user {first_user!r} of "
                f"{first_kind}"
            )
    if first_kind == "text":
        return tuple(text for x in samples for text in x)
    return np.concatenate([x for x in samples if len(x)])


def _users(path: Path) -> Iterable[tuple[str, Samples, Int[np.ndarray, "_"]]]:
    """The samples and labels of every user in a JSON file, after all checks."""
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
                f"{path}: user {user!r} has {len(y)} samples, but num_samples says "
                f"{counts[place]!r}"
            )
        yield user, x, y


def _samples(entry: Any, who: str) -> tuple[Samples, Int[np.ndarray, "n"]]:
    """The samples and labels of one user. ``who`` names the user at the beginning of error
    messages."""
    if not isinstance(entry, dict) or not {"x", "y"} <= entry.keys():
        keys = sorted(entry) if isinstance(entry, dict) else "no such object"
        raise DataError(f"{who}: expected 'user_data' with keys x and y, found {keys}")
    x = entry["x"]
    y = entry["y"]
    if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
        raise DataError(
            f"{who}: x and y must be lists of one length, got {_size(x)} and {_size(y)}"
        )
    labels = [_label(value, f"{who}: sample {row}") for row, value in enumerate(y)]
    is_text = len(x) > 0 and all(isinstance(text, str) for text in x)
    return (x if is_text else _numbers(x, who)), np.array(labels, np.int64)


def _label(value: Any, where: str) -> int:
    """A label of a JSON file as an integer. It may be a whole number, a number such as 1.0, or text
    such as "1"."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 2**53 or number != int(number):
        raise DataError(f"{where}: labels must be whole numbers from 0, got {value!r}")
    return int(number)


def _numbers(x: list[Any], who: str) -> Float32[np.ndarray, "n ..."]:
    """Samples of numbers as an array. Raises DataError for anything else."""
    try:
        array = np.array(x)
    except ValueError as error:
        lengths = sorted({len(row) for row in x if isinstance(row, list)})
        raise DataError(
            f"{who}: samples have different shapes, with lengths {lengths[:5]}"
        ) from error
    if x and (array.ndim < 2 or not array.size or array.dtype.kind not in "iuf"):
        raise DataError(
            f"{who}: x must be lists of numbers, or texts; sample 0 is {str(x[0])[:40]}"
        )
    with np.errstate(over="ignore"):
        small = array.astype(np.float32)
    if not np.isfinite(small).all():
        row = int(np.argmin(np.isfinite(small).reshape(len(small), -1).all(axis=1)))
        raise DataError(
            f"{who}: features must be finite, but sample {row} holds NaN, infinity, or a number "
            "over 3.4e38"
        )
    return small


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return _distinct(pairs, path)

    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=distinct)
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
    """The entries of a JSON object. Raises DataError for a repeated key, of which Python would keep
    the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path}: {twice!r} occurs twice in one object; probably a user was written twice"
        )
    return content


def _list(content: dict[str, Any], key: str, path: Path) -> list[Any]:
    """The list that a JSON object has under this key. Raises DataError if there is none."""
    if not isinstance(content.get(key), list):
        raise DataError(f"{path}: expected the key {key!r} with a list, found {sorted(content)}")
    return content[key]


def _size(value: Any) -> str:
    """The size of a list, or the type of another value, in words for error messages."""
    return f"{len(value)} entries" if isinstance(value, list) else type(value).__name__


def _visible(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match a pattern, sorted by name. Hidden files, which some file
    managers create, are left out."""
    files = [path for path in folder.glob(pattern) if path.is_file()]
    return sorted(path for path in files if not path.name.startswith("."))


def _listing(folder: Path) -> str:
    """The names of a folder's files as text, for error messages."""
    if not folder.is_dir():
        return "no such folder"
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return "an empty folder"
    return ", ".join(names if len(names) <= 8 else [*names[:8], "..."])


def read_leaf_arrays(path: Path, classes: int) -> LeafFiles:
    """Read the samples of an npz file.

    Its arrays are x [M, ...] of numbers, y [M], client_id [M] (numbers of users), split [M] (0
    train, 1 test), and users [N].

    Raises:
        DataError: an array is missing, damaged, out of range or of another length; the message
            names the file.
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
                f"{path}: x has {len(x)} samples, but {name} has shape {arrays[name].shape}"
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
                f"{path}: {name} must be from 0 to {limit - 1}, but row {wrong[0]} has "
                f"{arrays[name][wrong[0]]}"
            )
    N = len(users)
    return LeafFiles(
        users=tuple(map(str, users)),
        x=small,
        y=y,
        train=Ragged.of([np.flatnonzero(~tested & (owner == u)) for u in range(N)]),
        test=Ragged.of([np.flatnonzero(tested & (owner == u)) for u in range(N)]),
    )
