"""XLA devices: which rows (clients with their models) and arrays each device gets, and how many
clients it trains in parallel."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.models.frozen import FrozenPart
from fedkin.models.model import Model
from fedkin.simulation.batching import Batches
from fedkin.simulation.jax.device_trial import no_memory

_SMALL_DEVICE = 8 * 2**30  # memory in bytes assumed for an accelerator that does not report it
CANDIDATES = (1, 8, 32, 128)  # numbers of lanes to try; a lane is a client trained in parallel
_FEWEST_ROWS = 8  # smallest call whose speed is measured
# The fastest number of lanes for each model, as measured on its first call.
_chosen: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
# The frozen arrays of models, on the devices of each mesh: one copy for all data sets and programs.
_frozen: WeakKeyDictionary[FrozenPart, dict[Mesh, Any]] = WeakKeyDictionary()
_log = logging.getLogger("fedkin")


def local_devices(count: int | None) -> list:
    """The first ``count`` XLA devices of this machine; all if ``count`` is None."""
    local = jax.local_devices()
    if count is not None and not 1 <= count <= len(local):
        raise ConfigError(
            f"devices must be between 1 and the {len(local)} that XLA finds, got {count}"
        )
    return local[:count]


def rows_by_device(
    batches: Sequence[Batches],
    devices: int,
    lanes: int = 1,
) -> list[Int[np.ndarray, "r"]]:
    """Row numbers for each device. Rows (clients with their models) are assigned in order of their
    steps, most first, each to the device with the fewest steps so far.

    Args:
        batches: batches of each row; their number is the row's number of steps.
        devices: number of devices D.
        lanes: rows that a device computes in parallel. All lanes wait for the longest row, so rows
            of similar length follow each other.
    """
    load = np.zeros(devices)
    owner = np.zeros(len(batches), np.int64)
    steps = np.array([len(b.rows) for b in batches])
    for row in np.argsort(-steps, kind="stable"):
        owner[row] = np.argmin(load)
        load[owner[row]] += steps[row]
    longest_first = np.argsort(-steps, kind="stable") if lanes > 1 else np.arange(len(batches))
    return [longest_first[owner[longest_first] == d] for d in range(devices)]


def fastest_lanes(
    model: Model,
    rows: int,
    train: Callable[[int], Any],
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """The number of lanes (clients that a device trains in parallel), out of ``CANDIDATES``, with
    which local training takes the shortest time.

    Numbers above the number of rows (clients with one model each) are not tried, since some lanes
    would have no row. A training call with few rows is not measured: it runs one row after another,
    and a later call is measured instead. The search ends at a number for which the device has too
    little memory.

    Args:
        model: the model, for which the choice is remembered.
        rows: number of rows of the training call.
        train: trains all rows with a given number of lanes. It returns NumPy arrays, so that no
            computation is still running when it returns.
        clock: returns the time in seconds.
    """
    if model in _chosen:
        return _chosen[model]
    if rows < _FEWEST_ROWS:
        return 1
    seconds = {}
    for lanes in CANDIDATES:
        if lanes > rows:
            break
        try:
            train(lanes)  # the first call compiles, so only the second is timed
            begin = clock()
            train(lanes)
        except JaxRuntimeError as error:
            if not seconds or no_memory(error) is None:
                raise
            _log.info(
                "a device has too little memory to train %d clients in parallel; it trains fewer",
                lanes,
            )
            break
        seconds[lanes] = clock() - begin
    best = _chosen[model] = min(seconds, key=lambda lanes: seconds[lanes])
    measured = ", ".join(f"{lanes}: {took:.3f} s" for lanes, took in seconds.items())
    _log.info("run.clients_per_batch is %d, the fastest on the first cohort (%s)", best, measured)
    return best


def has_room(device: Any, size: int) -> bool:
    """Whether a device keeps arrays of ``size`` bytes between training calls.

    An accelerator keeps arrays up to a quarter of its memory. A CPU does not: it has no separate
    memory, so nothing would be gained.
    """
    if device.platform == "cpu":
        return False
    limit = (device.memory_stats() or {}).get("bytes_limit", _SMALL_DEVICE)
    return size <= limit // 4


def mesh_of(devices: list) -> Mesh:
    """A mesh of these devices along the axis ``devices``."""
    return _mesh(tuple(devices))


@lru_cache(maxsize=64)
def _mesh(devices: tuple) -> Mesh:
    """The mesh of these devices; the same object whenever the devices are the same."""
    return Mesh(np.array(devices), ("devices",))


def shard(mesh: Mesh, tree: Any) -> Any:
    """Split arrays along their first axis, one slice for each device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec("devices")))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """Copy arrays to every device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def frozen_on(mesh: Mesh, model: Model) -> Any:
    """The model's frozen arrays on every device, copied there once; None without any."""
    if model.frozen is None:
        return None
    copies = _frozen.setdefault(model.frozen, {})
    if mesh not in copies:
        copies[mesh] = replicate(mesh, model.frozen.tree)
    return copies[mesh]
