"""A federation in a folder of memory-mapped arrays, so that data may be larger than memory.

federation.json             description, sizes of all files, and digest of the data
x.npy, y.npy                samples of all clients, and their labels
train.rows.npy              rows of the training samples, client after client
train.offsets.npy           start of each client's rows (also for test and validation samples)
true_clusters.npy           true cluster of each client, if known
client_names.text.npy       names of all clients in UTF-8, if they have names
client_names.offsets.npy    start of each client's name
vectors.npy                 vectors for the words of a vocabulary, if there are any
unit.npy                    unit of each sample, such as its patient, if there are units

The operating system loads a part of a mapped file when it is needed, and drops it when memory is
short. Packing checks the samples and computes their digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import BackboneFeatures
from fedkin.core.storage import storage_errors, user_path, write_atomic
from fedkin.data.array_checks import type_of
from fedkin.data.array_targets import new_file, samples_made_in
from fedkin.data.client_names import ClientNames
from fedkin.data.digest import data_digest
from fedkin.data.federated import SPLITS, FederatedData
from fedkin.data.packed_files import PackedFiles, file_state
from fedkin.data.patients import ARRAYS as PATIENTS
from fedkin.data.patients import Patients
from fedkin.data.ragged import Ragged
from fedkin.data.table_transform import TableTransform
from fedkin.task_types.catalogue import task_type_from, values_of
from fedkin.task_types.classification import CLASSIFICATION

DESCRIPTION = "federation.json"
LAYOUT = 1
_PLAIN = ("name", "classes", "vocabulary", "label_names", "feature_names", "columns", "from_uint8")
# Entry of a table whose columns are scaled or renamed.
_TRANSFORM = "transform"
_TASK_TYPE = "task_type"  # an entry of data whose labels are no classes
_CLIENT_COLUMNS = "client_columns"  # an entry of data with facts about clients
_FEATURES_OF = "features_of"  # an entry of samples that a backbone computed
_TOKENIZER = "tokenizer"  # an entry of samples that a tokenizer made of texts
_TUPLES = ("vocabulary", "label_names", "feature_names")
_ARRAYS = ("x", "y", "true_clusters", "vectors", "unit")
_NAMES = ("client_names.text", "client_names.offsets")
# Bytes that are copied at a time.
_BLOCK_BYTES = 2**26


def is_packed(path: Path) -> bool:
    """Whether a folder holds packed data."""
    return (path / DESCRIPTION).is_file()


def pack(data: FederatedData | Callable[[], FederatedData], folder: str | Path) -> FederatedData:
    """Write a federation to a new folder, from which it is memory-mapped.

    Args:
        data: the federation, or a function that makes it. Generated samples, such as from ``lambda:
            fk.data.synthetic(clients=1_000_000, samples=20)``, are written as they are drawn, so
            they need no memory.
        folder: a new or empty folder.

    Returns:
        The data, opened from the folder. ``load(folder)`` opens them again, and so does
        ``data.path`` in a configuration.

    Raises:
        ConfigError: the folder has files.
        StorageError: the files cannot be written.
    """
    folder = user_path(folder)
    with storage_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} exists already, with other files; name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        if callable(data):
            data = _made_in(folder, data)
        if type(data) is not FederatedData:
            raise ConfigError(
                f"only the samples of a FederatedData can be packed, got {type(data).__name__}"
            )
        for name, array in _arrays(data).items():
            _write(folder / f"{name}.npy", array)
    about = _entries(data)
    about["files"] = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
    write_atomic(folder / DESCRIPTION, json.dumps(about, indent=1) + "\n")
    return open_packed(folder)


def _entries(data: FederatedData) -> dict[str, Any]:
    """The entries of the description of packed data, without their files. Entries of other data
    than these are left out."""
    about: dict[str, Any] = {"layout": LAYOUT}
    for name in _PLAIN:
        about[name] = getattr(data, name)
    if data.transform is not None:
        about[_TRANSFORM] = data.transform.values()
    if data.task_type != CLASSIFICATION:
        about[_TASK_TYPE] = values_of(data.task_type)
    if data.client_columns is not None:
        about[_CLIENT_COLUMNS] = dict(data.client_columns)
    if data.features_of is not None:
        about[_FEATURES_OF] = asdict(data.features_of)
    if data.tokenizer:
        about[_TOKENIZER] = data.tokenizer
    about["splits"] = data.splits
    about["digest"] = data_digest(data)
    return about


def _made_in(folder: Path, make: Callable[[], FederatedData]) -> FederatedData:
    """Call the function that makes the data, so that samples are written to the folder while they
    are made.

    If that fails, the files are removed.
    """
    try:
        with samples_made_in(folder):
            return make()
    except BaseException:
        for path in folder.glob("*.npy"):
            path.unlink()
        raise


def open_packed(folder: str | Path) -> FederatedData:
    """Open the federation in a folder that ``pack`` wrote. Its arrays are mapped, not read.

    Args:
        folder: folder of the packed data.

    Raises:
        DataError: a file is missing, damaged, or has a different size than at packing.
    """
    folder = user_path(folder)
    about = _description(folder)
    arrays = {
        name.removesuffix(".npy"): _mapped(folder / name, size)
        for name, size in about["files"].items()
    }
    states = {name: file_state(folder / name) for name in (*about["files"], DESCRIPTION)}
    packed = PackedFiles(
        folder=folder,
        digest=about["digest"],
        states={name: state for name, state in states.items() if state},
    )
    fields = {name: about[name] for name in _PLAIN}
    for name in _TUPLES:
        # JSON has lists in place of tuples.
        if fields[name] is not None:
            fields[name] = tuple(fields[name])
    for name in _ARRAYS:
        if name in arrays:
            fields[name] = arrays[name]
    fields[_TRANSFORM] = _transform(folder, about)
    if _TASK_TYPE in about:
        fields[_TASK_TYPE] = task_type_from(about[_TASK_TYPE], folder / DESCRIPTION)
    fields["client_names"] = _client_names(folder, about, arrays)
    fields[_CLIENT_COLUMNS] = _client_columns(folder, about)
    fields[_FEATURES_OF] = _features_of(folder, about)
    fields[_TOKENIZER] = str(about.get(_TOKENIZER, ""))
    if PATIENTS[0] in arrays:
        fields["patients"] = Patients.of_arrays(arrays)
    for split in about["splits"]:
        fields[split] = Ragged(arrays[f"{split}.rows"], arrays[f"{split}.offsets"])
    if len(fields["x"]) != len(fields["y"]):
        raise DataError(
            f"{folder}: {len(fields['x'])} samples but {len(fields['y'])} labels; pack the data "
            "again"
        )
    return FederatedData.trusted(packed, **fields)


def verify(folder: str | Path) -> None:
    """Read all files of packed data, and compare their digest with the stored one.

    Args:
        folder: folder of the packed data.

    Raises:
        DataError: the content differs from the packed one.
    """
    data = open_packed(folder)
    assert data.packed is not None
    # A copy without ``packed`` is needed: otherwise the stored digest would be returned unread.
    unpacked = data.with_rows(data.train, data.test)
    if data_digest(unpacked) != data.packed.digest:
        raise DataError(f"{folder}: its files differ from the packed ones; pack the data again")


def _description(folder: Path) -> dict[str, Any]:
    """Read the description (federation.json) of packed data from their folder, and check it."""
    path = folder / DESCRIPTION
    try:
        about = json.loads(path.read_text())
        if about["layout"] != LAYOUT:
            raise DataError(
                f"{path}: written by another version of fedkin (layout {about['layout']}, but this "
                f"version has {LAYOUT}); pack the data again"
            )
        splits = set(about["splits"])
        files = set(about["files"])
        needed = {"x.npy", "y.npy"}
        for split in splits:
            needed |= {f"{split}.rows.npy", f"{split}.offsets.npy"}
        if f"{_NAMES[0]}.npy" in files:
            needed |= {f"{name}.npy" for name in _NAMES}
        if f"{PATIENTS[0]}.npy" in files:
            needed |= {f"{name}.npy" for name in PATIENTS}
        allowed = needed | {f"{name}.npy" for name in _ARRAYS}
        has_splits = {"train", "test"} <= splits <= set(SPLITS)
        has_entries = {*_PLAIN, "digest"} <= set(about)
        if not has_splits or not has_entries or not needed <= files <= allowed:
            raise ValueError("its splits, files or other entries are incomplete or unknown")
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected the description of packed data, but it is damaged ({error})"
        ) from error
    return about


def _transform(folder: Path, about: dict[str, Any]) -> TableTransform | None:
    """How the columns of a table became the samples; None for other data, and for tables whose
    columns kept their values."""
    if about.get(_TRANSFORM) is None:
        return None
    try:
        return TableTransform.of_values(about[_TRANSFORM])
    except ValueError as error:
        raise _damaged(folder, _TRANSFORM, str(error)) from error


def _client_columns(folder: Path, about: dict[str, Any]) -> dict[str, tuple[str, ...]] | None:
    """The facts about clients, by name; None for data without facts."""
    entry = about.get(_CLIENT_COLUMNS)
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not all(isinstance(v, list) for v in entry.values()):
        raise _damaged(folder, _CLIENT_COLUMNS, "expected a list of values for each name")
    return {name: tuple(map(str, values)) for name, values in entry.items()}


def _features_of(folder: Path, about: dict[str, Any]) -> BackboneFeatures | None:
    """The backbone that computed the samples; None for other data."""
    entry = about.get(_FEATURES_OF)
    if entry is None:
        return None
    try:
        return BackboneFeatures(**entry)
    except TypeError as error:
        raise _damaged(folder, _FEATURES_OF, str(error)) from error


def _damaged(folder: Path, entry: str, reason: str) -> DataError:
    """The error about an entry of the description that cannot be read."""
    return DataError(
        f"{folder / DESCRIPTION}: its entry {entry} is damaged ({reason}); pack the data again"
    )


def _client_names(
    folder: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> ClientNames | None:
    """The names of clients, from two files; older folders have them in ``federation.json``."""
    text, offsets = _NAMES
    if text not in arrays:
        names = about.get("client_names")
        return None if names is None else ClientNames.of(names)
    names = ClientNames(text=arrays[text], offsets=arrays[offsets])
    if not names.is_whole():
        raise DataError(f"{folder}: the names of clients are damaged; pack the data again")
    return names


def _mapped(path: Path, size: int) -> np.ndarray:
    """Map the array in a file. Raises DataError unless the file has ``size`` bytes, as at
    packing."""
    state = file_state(path)
    if state is None:
        raise DataError(f"{path} is missing; pack the data again")
    found, _ = state
    if found != size:
        raise DataError(
            f"{path} has {found:,} bytes, but {size:,} were packed; pack the data again"
        )
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: expected an array, but it is damaged ({error})") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: expected an array, got {type_of(array)}")
    # A plain view of the same memory, because slicing a memmap takes microseconds.
    return array.view(np.ndarray)


def _arrays(data: FederatedData) -> dict[str, np.ndarray]:
    """All arrays of a federation, by the names of the files in which they are stored."""
    arrays = {name: getattr(data, name) for name in _ARRAYS if getattr(data, name) is not None}
    if data.client_names is not None:
        names = ClientNames.of(data.client_names)
        text, offsets = _NAMES
        arrays[text] = names.text
        arrays[offsets] = names.offsets
    if data.patients is not None:
        arrays |= data.patients.arrays()
    for split in data.splits:
        part = data.part(split)
        arrays[f"{split}.rows"] = part.rows
        arrays[f"{split}.offsets"] = part.offsets
    return arrays


def _write(path: Path, array: np.ndarray) -> None:
    """Write an array of packed data to a file, a block at a time. An array that is already mapped
    to this file is only flushed."""
    if isinstance(array, np.memmap) and array.filename:
        if Path(array.filename) == path.resolve():
            array.flush()
            return
    file = new_file(path, array.shape, array.dtype)
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        file[start : start + rows] = array[start : start + rows]
    if isinstance(file, np.memmap):
        file.flush()
