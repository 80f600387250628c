"""XLA devices, and which of them does what."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Int

from fedkin.errors import ConfigError
from fedkin.simulator.batching import Batches


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
