"""Large arrays of whole numbers, such as a cluster for each of a million clients, in few bytes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

LEAST = 2**20  # bytes of an array that is worth it
_LEVEL = 1  # most entries are equal: higher levels take longer for little


def compact(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays with the large ones of integers and booleans deflated (zlib), and what these were.

    Args:
        arrays: by name.

    Returns:
        The arrays to store, of uint8 where deflated; and type and shape of those, by name, as plain
        values.
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
    """The arrays of which ``compact`` made these.

    Args:
        stored: the arrays as they are stored.
        shapes: type and shape of those that are deflated.

    Raises:
        ValueError: they are not what ``compact`` makes. Never more is inflated than the shapes say.
    """
    arrays = dict(stored)
    for name, (kind, shape) in shapes.items():
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        inflating = zlib.decompressobj()
        try:
            content = inflating.decompress(arrays[name].tobytes(), size + 1)
        except (zlib.error, KeyError) as error:
            raise ValueError(f"array {name} cannot be inflated: {error}") from error
        if len(content) != size or not inflating.eof or inflating.unused_data:
            raise ValueError(f"array {name} has not the {size} bytes of its shape {shape}")
        # A bytearray makes an array that may be written to.
        arrays[name] = np.frombuffer(bytearray(content), dtype).reshape(shape)
    return arrays
