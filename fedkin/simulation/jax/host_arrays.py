"""Arrays in the host's memory that JAX uses without a copy on a CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

_ALIGNMENT = 64  # bytes; JAX copies an array that begins at another address


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Shaped[np.ndarray, "..."]:
    """An array of zeros which a CPU device of JAX shares with the host. The system provides its
    memory only where something is written, so padding takes none.

    The array must not be changed after it has been passed to JAX.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_rows(
    x: Shaped[np.ndarray, "M ..."], index: Int[np.ndarray, "..."]
) -> Shaped[np.ndarray, "..."]:
    """``x[index]``, as an array which a CPU device of JAX shares with the host."""
    rows = aligned_zeros((*index.shape, *x.shape[1:]), x.dtype)
    take_into(rows, x, index)
    return rows


def take_into(
    rows: Shaped[np.ndarray, "..."], x: Shaped[np.ndarray, "M ..."], index: Int[np.ndarray, "..."]
) -> None:
    """Write ``x[index]`` into an array.

    Args:
        rows: the array that is written.
        x: the array that is read.
        index: positions along the first axis of ``x``. All of them must exist.
    """
    # Without mode="clip" NumPy would make another copy of the rows first.
    np.take(x, index, axis=0, out=rows, mode="clip")
