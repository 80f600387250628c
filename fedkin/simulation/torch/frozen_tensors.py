"""The tensors of a frozen network as NumPy arrays, for a digest, for JAX, and for other
processes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

from fedkin.simulation.torch.flat_module import shared_entries


def as_arrays(entries: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors as NumPy arrays that share their memory, by name. NumPy has no bfloat16, so its
    numbers get the type that JAX has for them."""
    return {name: _as_array(entry.detach()) for name, entry in entries.items()}


def without_arrays(module: nn.Module) -> nn.Module:
    """A copy of a module in which the entries of its frozen network are empty."""
    memo = {}
    for entry in shared_entries(module).values():
        empty = torch.empty(0, dtype=entry.dtype)
        is_parameter = isinstance(entry, nn.Parameter)
        memo[id(entry)] = nn.Parameter(empty, requires_grad=False) if is_parameter else empty
    return copy.deepcopy(module, memo)


def put_arrays(module: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Fill the frozen network of a module with arrays, whose memory it then uses.

    Args:
        module: the module. It is changed.
        arrays: arrays by name, as ``as_arrays`` returns them.
    """
    for name, entry in shared_entries(module).items():
        entry.data = _as_tensor(arrays[name])


def _as_array(entry: Tensor) -> np.ndarray:
    """A tensor as an array that shares its memory."""
    if entry.dtype != torch.bfloat16:
        return entry.numpy()
    return entry.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _as_tensor(array: np.ndarray) -> Tensor:
    """An array as a tensor that shares its memory."""
    # Ray's processes share arrays that cannot be written. Frozen tensors are only read.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        if array.dtype != ml_dtypes.bfloat16:
            return torch.from_numpy(array)
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
