"""Readers of the file formats of data sets. A damaged file is refused with a message that names it;
nothing is ever unpickled."""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.csv_tables import Table, read_csv
from fedkin.data.machine_memory import check_memory
from fedkin.data.mapped_npz import map_member

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_RECORD = 1 + 3 * 32 * 32  # one label byte, then the red, green and blue planes
ENDINGS_OF = {
    "npz": (".npz",),
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
}
_CONVERSIONS = {  # to a CSV file, in Python
    ".json": "pandas.read_json({path!r}).to_csv('table.csv', index=False)",
    ".jsonl": "pandas.read_json({path!r}, lines=True).to_csv('table.csv', index=False)",
    ".ndjson": "pandas.read_json({path!r}, lines=True).to_csv('table.csv', index=False)",
    ".xlsx": "pandas.read_excel({path!r}).to_csv('table.csv', index=False)",
    ".xls": "pandas.read_excel({path!r}).to_csv('table.csv', index=False)",
    ".feather": "pandas.read_feather({path!r}).to_csv('table.csv', index=False)",
    ".arrow": "pandas.read_feather({path!r}).to_csv('table.csv', index=False)",
}
DAMAGE = (
    ValueError,
    KeyError,
    EOFError,
    OSError,
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,
)  # a password, nesting


@contextmanager
def reading(path: Path, kind: str, whole: bool = True) -> Iterator[None]:
    """Turn any error of a reader into one DataError that names the file.

    Args:
        path: the file.
        kind: what it should be.
        whole: whether it is read into memory: then ConfigError where it does not fit.
    """
    if (
        whole and path.is_file()
    ):  # arrays of text or of unpacked bytes are larger: this is the least
        check_memory(
            {f"the file {path}": path.stat().st_size}, "take a part of it, or a machine with more"
        )
    try:
        yield
    except (DataError, ConfigError):
        raise
    except FileNotFoundError:
        where = "" if path.is_absolute() else f" in the present folder, {Path.cwd()}"
        raise DataError(f"{path}: expected {kind}, found no such file{where}") from None
    except DAMAGE as error:
        raise DataError(
            f"{path}: expected {kind}, but it is damaged or of another kind ({error})"
        ) from error


def read_idx(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array of an idx file (MNIST's format), gzipped or not, in native byte order.

    Raises DataError where the header or the number of bytes is wrong.
    """
    path = Path(path)
    with reading(path, "an idx file"):
        raw = path.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        return _parse_idx(data, path)


def _parse_idx(data: bytes, path: Path) -> np.ndarray:
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES:
        raise DataError(
            f"{path}: expected an idx header (00 00, type, dimensions), got "
            f"{data[:4].hex(' ') or 'nothing'}"
        )
    dtype = np.dtype(IDX_TYPES[data[2]])
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(
            f"{path}: idx header of {data[3]} dimensions is cut off after {len(data)} bytes"
        )
    shape = tuple(int(n) for n in np.frombuffer(data[4:start], ">u4"))
    expected = math.prod(shape) * dtype.itemsize
    if len(data) - start != expected:
        raise DataError(
            f"{path}: idx shape {shape} needs {expected} bytes of data, the file has "
            f"{len(data) - start}"
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(
    images: Path, labels: Path, classes: int = 10
) -> tuple[UInt8[np.ndarray, "M H W"], Int[np.ndarray, "M"]]:
    """Images and labels of an MNIST-like set.

    Args:
        images: idx file of 8-bit images.
        labels: idx file of as many labels.
        classes: C.

    Raises:
        DataError: a damaged file, or files that do not fit each other.
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
    """Images and labels of one batch of CIFAR-10's official binary version (any number of whole
    records)."""
    path = Path(path)
    with reading(path, "a CIFAR-10 binary batch"):
        raw = np.frombuffer(path.read_bytes(), np.uint8)
    if len(raw) == 0 or len(raw) % CIFAR_RECORD:
        raise DataError(
            f"{path}: expected whole records of {CIFAR_RECORD} bytes, got {len(raw)} bytes in all"
        )
    records = raw.reshape(-1, CIFAR_RECORD)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), check_labels(records[:, 0], 10, path)


def read_npz(
    path: Path, needed: tuple[str, ...] = (), mapped: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """All arrays of an npz file. Object arrays, which only pickle can read, are refused.

    Args:
        path: the file.
        needed: names that must be among them.
        mapped: names of arrays that are mapped, not read, where the file has them uncompressed
            (``np.savez``).
    """
    path = Path(path)
    with reading(path, "an npz file without object arrays", whole=not mapped):
        with path.open(
            "rb"
        ) as raw:  # np.load leaves a file that it opens itself open where it fails
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(
                    f"{path}: expected an npz file (several named arrays), got a single array"
                )
            with file:
                parts = {part.filename: part for part in file.zip.infolist()} if file.zip else {}
                stored = {name: parts[f"{name}.npy"] for name in mapped if f"{name}.npy" in parts}
                arrays = {
                    name: map_member(path, part)
                    for name, part in stored.items()
                    if not part.compress_type
                }
                unpacked = sum(
                    part.file_size
                    for name, part in parts.items()
                    if name.removesuffix(".npy") not in arrays
                )
                check_memory(
                    {f"the arrays of {path}": unpacked},
                    "take a part of them, or a machine with more",
                )
                arrays |= {name: file[name] for name in file.files if name not in arrays}
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise DataError(
            f"{path}: expected arrays {', '.join(needed)}; {', '.join(missing)} not among "
            f"{sorted(arrays)}"
        )
    return arrays


def read_npy_folder(path: Path, mapped: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The arrays of the npy files in a folder, by name. Object arrays are refused.

    Args:
        path: the folder.
        mapped: names of arrays that are mapped, not read.
    """
    arrays = {}
    for file in sorted(path.glob("*.npy")):
        is_mapped = file.stem in mapped
        with reading(file, "an npy file without objects", whole=not is_mapped):
            arrays[file.stem] = np.load(
                file, mmap_mode="r" if is_mapped else None, allow_pickle=False
            )
    return arrays


def table_kind(path: Path, others: str = "") -> str:
    """``csv``, ``parquet`` or ``npz``, as the ending of a file says.

    Args:
        path: the file.
        others: what else is accepted, for the message.

    Raises DataError for any other ending.
    """
    endings = {ending: kind for kind, several in ENDINGS_OF.items() for ending in several}
    name = path.name.lower()
    for ending, kind in endings.items():
        if name.endswith(ending):
            return kind
    found = "".join(path.suffixes[-2:]) or "no ending"
    missing = "" if path.exists() else ", and there is no such file"
    cure = _CONVERSIONS.get(path.suffix.lower())
    advice = f"; write it as CSV: {cure.format(path=str(path))}" if cure and path.exists() else ""
    raise DataError(
        f"{path}: expected a file that ends in {', '.join(endings)}{others}; got "
        f"{found}{missing}{advice}"
    )


def read_table(path: Path, names: str | None = None) -> Table:
    """A CSV or Parquet file as a table with unique column names; ``csv_tables`` says how a CSV file
    may be written.

    Args:
        path: the file.
        names: a column of a CSV file whose entries are names: they stay text where one is not
            written as the number that it would be read as (01, 1e3).

    Raises:
        DataError: no such file, one of another kind, a damaged one, or one without rows.
    """
    path = Path(path)
    kind = table_kind(path)
    if kind == "npz":
        raise DataError(f"{path}: expected a table, CSV or Parquet, got an npz file")
    with reading(path, "a Parquet file" if kind == "parquet" else "a CSV file"):
        import pandas as pd

        try:
            table = pd.read_parquet(path) if kind == "parquet" else read_csv(path, names)
        except TypeError as error:  # the types of columns, as a damaged file names them
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
        classes: C; None for any.
        path: file, or what else to name in errors.

    Raises:
        DataError: a label that is no whole number in the range; its row is named.
    """
    if y.dtype.kind not in "iufb":
        raise DataError(
            f"{path}: labels must be whole numbers from 0, got {y.dtype} such as {y[:1]}"
        )
    y = y.astype(np.float64) if y.dtype.kind == "f" else y
    limit = 2**63 if classes is None else classes  # int64 ends there
    bad = ~np.isfinite(y) | (y < 0) | (y != np.floor(y)) | (y >= limit)
    if bad.any():
        row = int(np.argmax(bad))
        top = "" if classes is None else f" to {classes - 1}"
        raise DataError(
            f"{path}: labels must be whole numbers from 0{top}, row {row} has {y[row]} "
            f"({bad.sum()} such rows)"
        )
    return y.astype(np.int64)


def check_finite(
    x: Shaped[np.ndarray, "M ..."], path: Path | str, what: str = "NaN or infinity"
) -> None:
    """Refuse (DataError) NaN and infinite features, naming the first row that has one.

    Args:
        x: features.
        path: file, or what else to name in errors.
        what: such values, as the message calls them.
    """
    if np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
        rows = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
        raise DataError(
            f"{path}: features must be finite, row {rows[0]} holds {what} ({len(rows)} such rows)"
        )
