"""Compression of large integer arrays, such as the cluster of each of a million clients."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

LEAST = 2**20  # size in bytes from which arrays are compressed
_LEVEL = 1  # of zlib; higher levels are slower and gain little, since most entries are equal


def compact(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Compress large integer and boolean arrays with zlib.

    Args:
        arrays: the arrays by name.

    Returns:
        The arrays to store, uint8 if compressed; and the type and shape of each compressed array,
        by name, as plain values.
    """
    stored = dict(arrays)
    shapes: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.dtype.kind in "iub" and array.nbytes >= LEAST:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            stored[name] = np.frombuffer(zlib.compress(content, _LEVEL), np.uint8)
            shapes[name] = [array.dtype.str, list(array.shape)]
    return stored, shapes


def expand(stored: Mapping[str, np.ndarray], shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Decompress arrays that ``compact`` compressed.

    Args:
        stored: the arrays as stored.
        shapes: type and shape of each compressed array, by name.

    Raises:
        ValueError: the input is not a result of ``compact``. Decompression never uses more memory
            than the given shapes need.
    """
    arrays = dict(stored)
    for name, (kind, shape) in shapes.items():
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        inflating = zlib.decompressobj()
        try:
            # One byte more than expected is enough to notice a content that is too long.
            content = inflating.decompress(arrays[name].tobytes(), size + 1)
        except (zlib.error, KeyError) as error:
            raise ValueError(f"array {name} cannot be decompressed: {error}") from error
        if len(content) != size or not inflating.eof or inflating.unused_data:
            raise ValueError(f"array {name} does not have the {size} bytes of its shape {shape}")
        # A bytearray makes the array writable, as the original was; bytes would not.
        arrays[name] = np.frombuffer(bytearray(content), dtype).reshape(shape)
    return arrays
