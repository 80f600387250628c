"""XLA devices, and the rows and arrays that each of them gets."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.simulation.batching import Batches


def local_devices(count: int | None) -> list:
    """The first ``count`` devices that XLA finds on this machine, or all of them."""
    local = jax.local_devices()
    if count is not None and not 1 <= count <= len(local):
        raise ConfigError(f"devices must be between 1 and the {len(local)} that XLA finds, got {count}")
    return local[:count]


def rows_by_device(batches: list[Batches], devices: int) -> list[Int[np.ndarray, "r"]]:
    """Row numbers for each device: longest rows first, each to the device with the fewest steps."""
    load = np.zeros(devices)
    owner = np.zeros(len(batches), np.int64)
    steps = np.array([len(b.rows) for b in batches])
    for row in np.argsort(-steps, kind="stable"):
        owner[row] = np.argmin(load)
        load[owner[row]] += steps[row]
    return [np.flatnonzero(owner == d) for d in range(devices)]


def mesh_of(devices: list) -> Mesh:
    """A mesh of these devices along the axis ``devices``."""
    return _mesh(tuple(devices))


@lru_cache(maxsize=64)
def _mesh(devices: tuple) -> Mesh:
    return Mesh(np.array(devices), ("devices",))


def shard(mesh: Mesh, tree: Any) -> Any:
    """Arrays split along their first axis, one slice on every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec("devices")))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """Arrays copied whole to every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))
