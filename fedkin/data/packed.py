"""A federation in a folder of arrays that are read where they lie, so that data may be larger than
memory.

federation.json         what the data are, the sizes of all files, and the digest of the data
x.npy, y.npy            samples of all clients, and their labels
train.rows.npy          the rows of the training samples, client after client
train.offsets.npy       where each client's begin (the same for test and validation samples)
true_clusters.npy       where they are known
client_names.text.npy   where clients have names: all of them, in UTF-8
client_names.offsets.npy    where each client's begins
vectors.npy             of the words of a vocabulary, where there are any

A file that is opened is mapped into memory, not read: pages of it come when they are needed, and
the system takes them back when it needs them. Samples are checked, and their digest is taken, once,
when they are packed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.storage import storage_errors, user_path, write_atomic
from fedkin.data.allocation import new_file, samples_made_in
from fedkin.data.array_checks import type_of
from fedkin.data.client_names import ClientNames
from fedkin.data.digest import data_digest
from fedkin.data.federated import SPLITS, FederatedData
from fedkin.data.packed_files import PackedFiles, file_state
from fedkin.data.ragged import Ragged

DESCRIPTION = "federation.json"
LAYOUT = 1
_PLAIN = ("name", "classes", "vocabulary", "label_names", "feature_names", "columns", "from_uint8")
_TUPLES = ("vocabulary", "label_names", "feature_names")
_ARRAYS = ("x", "y", "true_clusters", "vectors")
_NAMES = ("client_names.text", "client_names.offsets")
_BLOCK_BYTES = 2**26  # that are copied at a time


def is_packed(path: Path) -> bool:
    """Whether a folder has packed data."""
    return (path / DESCRIPTION).is_file()


def pack(data: FederatedData | Callable[[], FederatedData], folder: str | Path) -> FederatedData:
    """Write a federation into a new folder, from which it is read as if it were in memory.

    Args:
        data: the federation, or what makes it. Samples of a data set that is generated, such as
            ``lambda: fk.data.synthetic(clients=1_000_000, samples=20)``, are written as they are
            drawn, and never in memory.
        folder: a new or empty one.

    Returns:
        The data, opened there. ``load(folder)`` opens them again, as does ``data.path`` in a
        configuration.

    Raises:
        ConfigError: the folder has files.
        StorageError: the disk does not take them.
    """
    folder = user_path(folder)
    with storage_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} is there already, with other files; name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        if callable(data):
            data = _made_in(folder, data)
        if type(data) is not FederatedData:
            raise ConfigError(
                f"only the samples of a FederatedData can be packed, got {type(data).__name__}"
            )
        for name, array in _arrays(data).items():
            _write(folder / f"{name}.npy", array)
    files = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
    plain = {name: getattr(data, name) for name in _PLAIN}
    about = {
        "layout": LAYOUT,
        **plain,
        "splits": data.splits,
        "digest": data_digest(data),
        "files": files,
    }
    write_atomic(folder / DESCRIPTION, json.dumps(about, indent=1) + "\n")
    return open_packed(folder)


def _made_in(folder: Path, make: Callable[[], FederatedData]) -> FederatedData:
    """Data whose samples are written to the folder as they are made; none is left where making them
    fails."""
    try:
        with samples_made_in(folder):
            return make()
    except BaseException:
        for path in folder.glob("*.npy"):
            path.unlink()
        raise


def open_packed(folder: str | Path) -> FederatedData:
    """The federation of a folder that ``pack`` wrote; its arrays are mapped, not read.

    Args:
        folder: of the files.

    Raises:
        DataError: a file is missing, damaged or of another size than it was packed with.
    """
    folder = user_path(folder)
    about = _description(folder)
    arrays = {
        name.removesuffix(".npy"): _mapped(folder / name, size)
        for name, size in about["files"].items()
    }
    states = {name: file_state(folder / name) for name in (*about["files"], DESCRIPTION)}
    packed = PackedFiles(
        folder, about["digest"], {name: state for name, state in states.items() if state}
    )
    fields = {name: about[name] for name in _PLAIN}
    fields |= {name: None if fields[name] is None else tuple(fields[name]) for name in _TUPLES}
    fields |= {name: arrays[name] for name in _ARRAYS if name in arrays}
    fields["client_names"] = _client_names(folder, about, arrays)
    for split in about["splits"]:
        fields[split] = Ragged(arrays[f"{split}.rows"], arrays[f"{split}.offsets"])
    if len(fields["x"]) != len(fields["y"]):
        raise DataError(
            f"{folder}: {len(fields['x'])} samples but {len(fields['y'])} labels; pack the data "
            "anew"
        )
    return FederatedData.trusted(packed, **fields)


def verify(folder: str | Path) -> None:
    """Read all files of packed data, and refuse (DataError) contents that are not what was packed.

    Args:
        folder: of the files.
    """
    data = open_packed(folder)
    assert data.packed is not None
    if (
        data_digest(data.with_rows(data.train, data.test)) != data.packed.digest
    ):  # which is not trusted
        raise DataError(f"{folder}: its files are not what was packed; pack the data anew")


def _description(folder: Path) -> dict[str, Any]:
    """What a folder says of its data."""
    path = folder / DESCRIPTION
    try:
        about = json.loads(path.read_text())
        if about["layout"] != LAYOUT:
            raise DataError(
                f"{path}: written by another version of fedkin (layout {about['layout']}, here "
                f"{LAYOUT})"
            )
        needed = {
            "x.npy",
            "y.npy",
            *(f"{split}.{part}.npy" for split in about["splits"] for part in ("rows", "offsets")),
        }
        whole = set(about["splits"]) <= set(SPLITS) and {"train", "test"} <= set(about["splits"])
        if f"{_NAMES[0]}.npy" in about["files"]:
            needed |= {f"{name}.npy" for name in _NAMES}
        names = {f"{name}.npy" for name in _ARRAYS} | needed
        if (
            not whole
            or not needed <= set(about["files"]) <= names
            or not {*_PLAIN, "digest"} <= set(about)
        ):
            raise ValueError("entries are missing")
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected the description of packed data, but it is damaged ({error})"
        ) from error
    return about


def _client_names(
    folder: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> ClientNames | None:
    """The names in two files; folders of before have them in their description."""
    if _NAMES[0] not in arrays:
        return None if about.get("client_names") is None else ClientNames.of(about["client_names"])
    names = ClientNames(*(arrays[name] for name in _NAMES))
    if not names.is_whole():
        raise DataError(f"{folder}: the names of clients are damaged; pack the data anew")
    return names


def _mapped(path: Path, size: int) -> np.ndarray:
    """An array in a file, of which nothing is read."""
    state = file_state(path)
    if state is None or state[0] != size:
        what = (
            "is missing" if state is None else f"has {state[0]:,} bytes, and {size:,} were packed"
        )
        raise DataError(f"{path} {what}; pack the data anew")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: expected an array, but it is damaged ({error})") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: expected an array, got {type_of(array)}")
    return array.view(np.ndarray)  # of the same pages; a memmap takes microseconds for every slice


def _arrays(data: FederatedData) -> dict[str, np.ndarray]:
    """All arrays of data, by the names of their files."""
    arrays = {name: getattr(data, name) for name in _ARRAYS if getattr(data, name) is not None}
    if data.client_names is not None:
        names = ClientNames.of(data.client_names)
        arrays |= dict(zip(_NAMES, (names.text, names.offsets), strict=True))
    for split in data.splits:
        part = data.part(split)
        arrays |= {f"{split}.rows": part.rows, f"{split}.offsets": part.offsets}
    return arrays


def _write(path: Path, array: np.ndarray) -> None:
    """Write an array, a block at a time; one that was made in this file is forced to the disk."""
    if isinstance(array, np.memmap) and array.filename and Path(array.filename) == path.resolve():
        array.flush()
        return
    file = new_file(path, array.shape, array.dtype)
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        file[start : start + rows] = array[start : start + rows]
    if isinstance(file, np.memmap):
        file.flush()
