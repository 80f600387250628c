"""XLA devices, and which of them does what."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.simulation.batching import Batches


def devices(count: int | None) -> list:
    """The first ``count`` devices that XLA finds on this machine, or all of them."""
    found = jax.local_devices()
    if count is not None and not 1 <= count <= len(found):
        raise ConfigError(f"devices must be between 1 and the {len(found)} that XLA finds, got {count}")
    return found[:count]


def shares(batches: list[Batches], devices: int) -> list[Int[np.ndarray, "r"]]:
    """Row numbers for each device: the longest first, each to the device with least to do."""
    load = np.zeros(devices)
    owner = np.zeros(len(batches), np.int64)
    steps = np.array([len(b.rows) for b in batches])
    for row in np.argsort(-steps, kind="stable"):
        owner[row] = np.argmin(load)
        load[owner[row]] += steps[row]
    return [np.flatnonzero(owner == d) for d in range(devices)]


def mesh_of(devices: list) -> Mesh:
    """Devices in a row, along an axis of that name."""
    return _mesh(tuple(devices))


@lru_cache(maxsize=64)
def _mesh(devices: tuple) -> Mesh:
    return Mesh(np.array(devices), ("devices",))


def split(mesh: Mesh, tree: Any) -> Any:
    """Arrays, cut along their first axis, a piece to every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec("devices")))


def replicated(mesh: Mesh, tree: Any) -> Any:
    """Arrays, whole on every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))
