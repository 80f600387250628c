"""Allocates the arrays into which samples are written: in memory or, while data are packed (written
to a folder of memory-mapped files), in these files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from fedkin.data.machine_memory import check_memory

_folder: ContextVar[Path | None] = ContextVar("folder of the samples that are made", default=None)


def sample_arrays(
    name: str, samples: int, features: tuple[int, ...]
) -> tuple[Float32[np.ndarray, "M ..."], Int64[np.ndarray, "M"]]:
    """Uninitialised arrays for the features and labels of samples that will be generated.

    Args:
        name: name of the data set, for the message.
        samples: number of samples M.
        features: shape of a sample.

    Returns:
        The two arrays, not initialised.

    Raises:
        ConfigError: the machine has too little memory for the arrays.
    """
    folder = _folder.get()
    if folder is None:
        # Features in float32; the label, and entries in two indices, in int64.
        sample_bytes = int(np.prod(features)) * 4 + 3 * 8
        size = samples * sample_bytes
        check_memory(
            {f"{samples:,} samples of {name}": size},
            f"use fewer (data.clients), or let them be written to files (fedkin data make {name} "
            "... --out FOLDER)",
        )
        x = np.empty((samples, *features), np.float32)
        y = np.empty(samples, np.int64)
        return x, y
    x = new_file(folder / "x.npy", (samples, *features), np.float32)
    y = new_file(folder / "y.npy", (samples,), np.int64)
    return x, y


def feature_array(
    place: Path | str, shape: tuple[int, ...], dtype: Any
) -> Shaped[np.ndarray, "M ..."]:
    """An uninitialised array for the features of the user's samples. The caller fills it, a block
    of samples at a time.

    Args:
        place: where the samples come from, for the message.
        shape: number of samples M, then the shape of a sample.
        dtype: type of the features.

    Returns:
        The array, not initialised.

    Raises:
        ConfigError: the machine has too little memory for the array.
    """
    folder = _folder.get()
    if folder is not None:
        return new_file(folder / "x.npy", shape, dtype)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    cure = (
        "use a part of them, or let them be written to files (fedkin data make ... --out FOLDER, "
        "fk.data.pack)"
    )
    check_memory({f"{shape[0]:,} samples of {place}": size}, cure)
    return np.empty(shape, dtype)


@contextmanager
def samples_made_in(folder: Path) -> Iterator[None]:
    """Context manager: inside it, ``sample_arrays`` and ``feature_array`` return arrays that are
    mapped to the files ``x.npy`` and ``y.npy`` of a folder, instead of arrays in memory."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def new_file(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array mapped to a new npy file.

    An array without elements cannot be mapped, so its file is written at once.

    Args:
        path: path of the file.
        shape: shape of the array.
        dtype: type of its numbers.
    """
    if not np.prod(shape):
        np.save(path, np.empty(shape, dtype))
        return np.empty(shape, dtype)
    return np.lib.format.open_memmap(path, "w+", dtype, shape)
