"""Readers for the file formats of data sets.

A damaged file is refused with a message that names it. No file is unpickled.
"""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.csv_tables import Table, read_csv
from fedkin.data.machine_memory import check_memory
from fedkin.data.mapped_npz import map_member

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# Bytes of a record: one label byte, then the red, green and blue planes.
CIFAR_RECORD = 1 + 3 * 32 * 32
ENDINGS_OF = {
    "npz": (".npz",),
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
}
# Python code that writes other tables as CSV, by the ending of the file.
_CONVERSIONS = {
    ".json": "pandas.read_json({path!r}).to_csv('table.csv', index=False)",
    ".jsonl": "pandas.read_json({path!r}, lines=True).to_csv('table.csv', index=False)",
    ".ndjson": "pandas.read_json({path!r}, lines=True).to_csv('table.csv', index=False)",
    ".xlsx": "pandas.read_excel({path!r}).to_csv('table.csv', index=False)",
    ".xls": "pandas.read_excel({path!r}).to_csv('table.csv', index=False)",
    ".feather": "pandas.read_feather({path!r}).to_csv('table.csv', index=False)",
    ".arrow": "pandas.read_feather({path!r}).to_csv('table.csv', index=False)",
}
# Errors that readers raise for a damaged file (RuntimeError for a password, or deep nesting).
DAMAGE = (
    ValueError,
    KeyError,
    EOFError,
    OSError,
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,
)


@contextmanager
def reading(path: Path, kind: str, whole: bool = True) -> Iterator[None]:
    """Convert any error of a reader to a DataError that names the file.

    Args:
        path: path of the file.
        kind: the expected kind of file, for the message.
        whole: whether the whole file is read into memory.

    Raises:
        DataError: the file does not exist, or the reader has failed.
        ConfigError: the file does not fit into memory.
    """
    if whole and path.is_file():
        # The size of the file is a lower bound, since text and unpacked bytes take more memory.
        check_memory(
            {f"the file {path}": path.stat().st_size}, "use a part of it, or a machine with more"
        )
    try:
        yield
    except (DataError, ConfigError):
        raise
    except FileNotFoundError:
        where = "" if path.is_absolute() else f" in the current folder, {Path.cwd()}"
        raise DataError(f"{path}: expected {kind}, found no such file{where}") from None
    except DAMAGE as error:
        raise DataError(
            f"{path}: expected {kind}, but it is damaged or of another kind ({error})"
        ) from error


def read_idx(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array of an idx file (MNIST's format), gzipped or not, in native byte order.

    Raises:
        DataError: the header or the number of bytes is wrong.
    """
    path = Path(path)
    with reading(path, "an idx file"):
        raw = path.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        return _parse_idx(data, path)


def _parse_idx(data: bytes, path: Path) -> np.ndarray:
    """The array in the bytes of an idx file: header (type, shape), then the numbers."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES:
        raise DataError(
            f"{path}: expected an idx header (00 00, type, dimensions), got "
            f"{data[:4].hex(' ') or 'nothing'}"
        )
    dtype = np.dtype(IDX_TYPES[data[2]])
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(
            f"{path}: the idx header of {data[3]} dimensions is cut off after {len(data)} bytes"
        )
    shape = tuple(int(n) for n in np.frombuffer(data[4:start], ">u4"))
    expected = math.prod(shape) * dtype.itemsize
    if len(data) - start != expected:
        raise DataError(
            f"{path}: idx shape {shape} needs {expected} bytes of data, but the file has "
            f"{len(data) - start}"
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(
    images: Path, labels: Path, classes: int = 10
) -> tuple[UInt8[np.ndarray, "M H W"], Int[np.ndarray, "M"]]:
    """Images and labels of a set like MNIST.

    Args:
        images: idx file with M 8-bit images.
        labels: idx file with M labels.
        classes: number of classes C.

    Raises:
        DataError: a file is damaged, or the files do not belong together.
    """
    x = read_idx(images)
    y = read_idx(labels)
    if x.dtype != np.uint8 or x.ndim != 3:
        raise DataError(
            f"{images}: expected 8-bit images [M, H, W], got {x.dtype} of shape {x.shape}"
        )
    if y.shape != (len(x),):
        raise DataError(f"{labels}: expected {len(x)} labels for {images}, got shape {y.shape}")
    return x, check_labels(y, classes, labels)


def read_cifar(path: Path) -> tuple[UInt8[np.ndarray, "M 32 32 3"], Int[np.ndarray, "M"]]:
    """Images and labels of a batch file of CIFAR-10's binary version, with any number of records (a
    label and its image)."""
    path = Path(path)
    with reading(path, "a CIFAR-10 binary batch"):
        raw = np.frombuffer(path.read_bytes(), np.uint8)
    if len(raw) == 0 or len(raw) % CIFAR_RECORD:
        raise DataError(
            f"{path}: expected whole records of {CIFAR_RECORD} bytes, got {len(raw)} bytes in all"
        )
    records = raw.reshape(-1, CIFAR_RECORD)
    # A record is the label, then all red, all green and all blue pixels.
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), check_labels(records[:, 0], 10, path)


def read_npz(
    path: Path, needed: tuple[str, ...] = (), mapped: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """All arrays of an npz file. Object arrays, which only pickle can read, are refused.

    Args:
        path: the file.
        needed: names of arrays that the file must have.
        mapped: names of arrays that are mapped instead of read, if the file has them uncompressed
            (``np.savez``).

    Returns:
        The arrays by name, mapped ones first.
    """
    path = Path(path)
    with reading(path, "an npz file without object arrays", whole=not mapped):
        # np.load would not close a file that it has opened but cannot read.
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(
                    f"{path}: expected an npz file (several named arrays), got a single array"
                )
            with file:
                arrays = _npz_arrays(file, path, mapped)
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise DataError(
            f"{path}: expected arrays {', '.join(needed)}, but {', '.join(missing)} is not among "
            f"{sorted(arrays)}"
        )
    return arrays


def _npz_arrays(file: Any, path: Path, mapped: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read the arrays of an open npz file. Raises ConfigError if they do not fit into memory."""
    members = {member.filename: member for member in file.zip.infolist()} if file.zip else {}
    arrays: dict[str, np.ndarray] = {}
    for name in mapped:
        member = members.get(f"{name}.npy")
        # Only uncompressed arrays are in the file as they are in memory.
        if member is not None and not member.compress_type:
            arrays[name] = map_member(path, member)
    unpacked = sum(
        member.file_size
        for filename, member in members.items()
        if filename.removesuffix(".npy") not in arrays
    )
    check_memory({f"the arrays of {path}": unpacked}, "use a part of them, or a machine with more")
    for name in file.files:
        if name not in arrays:
            arrays[name] = file[name]
    return arrays


def read_npy_folder(path: Path, mapped: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The arrays of the npy files in a folder, by name. Object arrays are refused.

    Args:
        path: the folder.
        mapped: names of arrays that are mapped instead of read.
    """
    arrays = {}
    for file in sorted(path.glob("*.npy")):
        name = file.stem
        with reading(file, "an npy file without objects", whole=name not in mapped):
            mode = "r" if name in mapped else None
            arrays[name] = np.load(file, mmap_mode=mode, allow_pickle=False)
    return arrays


def table_kind(path: Path, others: str = "") -> str:
    """The kind of a file by its ending: ``csv`` (also for .tsv), ``parquet`` or ``npz``.

    Args:
        path: the file.
        others: further kinds that the caller accepts, for the message.

    Raises:
        DataError: the name of the file has none of the endings in ``ENDINGS_OF``.
    """
    name = path.name.lower()
    for kind, endings in ENDINGS_OF.items():
        if name.endswith(endings):
            return kind
    found = "".join(path.suffixes[-2:]) or "no ending"
    if path.exists():
        conversion = _CONVERSIONS.get(path.suffix.lower())
        if conversion:
            found += f"; write it as CSV: {conversion.format(path=str(path))}"
    else:
        found += ", and the file does not exist"
    expected = ", ".join(ending for endings in ENDINGS_OF.values() for ending in endings)
    raise DataError(f"{path}: expected a file that ends in {expected}{others}; got {found}")


def is_table_file(name: str) -> bool:
    """Whether a file is a table, by the ending of its name."""
    return name.lower().endswith((*ENDINGS_OF["csv"], *ENDINGS_OF["parquet"]))


def read_table(path: Path, names: str | None = None) -> Table:
    """A CSV or Parquet file as a table with unique column names.

    Args:
        path: the file; ``csv_tables`` describes the forms of a CSV file.
        names: a column of a CSV file whose entries are names. They stay text if reading an entry
            such as 01 or 1e3 as a number would change it.

    Returns:
        A DataFrame, one row per sample.

    Raises:
        DataError: the file does not exist, is neither CSV nor Parquet, is damaged, or has no rows.
    """
    path = Path(path)
    kind = table_kind(path)
    if kind == "npz":
        raise DataError(f"{path}: expected a table, CSV or Parquet, got an npz file")
    with reading(path, "a Parquet file" if kind == "parquet" else "a CSV file"):
        import pandas as pd

        try:
            table = pd.read_parquet(path) if kind == "parquet" else read_csv(path, names)
        except TypeError as error:
            # A damaged file may name column types that do not exist.
            raise ValueError(error) from error
    if not len(table):
        raise DataError(f"{path}: expected one row per sample, found none")
    return table


def check_labels(
    y: Shaped[np.ndarray, "M"], classes: int | None, path: Path | str
) -> Int[np.ndarray, "M"]:
    """Labels as int64 in 0 .. C-1.

    Args:
        y: labels of any number type.
        classes: number of classes C; None for any number.
        path: file or name with which error messages begin.

    Raises:
        DataError: a label is not a whole number in the range; the message names its row.
    """
    if y.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: labels must be whole numbers from 0, got {y.dtype} such as {y[:1]}"
        )
    y = y.astype(np.float64) if y.dtype.kind == "f" else y
    # int64 ends at 2**63.
    limit = 2**63 if classes is None else classes
    bad = ~np.isfinite(y) | (y < 0) | (y != np.floor(y)) | (y >= limit)
    if bad.any():
        row = int(np.argmax(bad))
        top = "" if classes is None else f" to {classes - 1}"
        raise DataError(
            f"{path}: labels must be whole numbers from 0{top}, but row {row} has {y[row]} "
            f"({bad.sum()} such rows)"
        )
    return y.astype(np.int64)


def check_finite(
    x: Shaped[np.ndarray, "M ..."], path: Path | str, what: str = "NaN or infinity"
) -> None:
    """Raise DataError for NaN and infinite features. The message names the first row with one.

    Args:
        x: features.
        path: file or name with which error messages begin.
        what: the word for such values in the message.
    """
    if np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
        rows = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
        raise DataError(
            f"{path}: features must be finite, but row {rows[0]} holds {what} ({len(rows)} such "
            "rows)"
        )
