"""Keeps the samples of a training call on the devices, for following calls with the same
clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, Shaped

from fedkin.simulation.jax.devices import shard


@dataclass(frozen=True)
class SamplesOfCall:
    """The clients of a training call, and their samples on the devices."""

    clients: tuple[bytes, ...] = ()  # the clients of each device, as bytes to compare
    again: bool = False  # whether the call before had the same clients
    samples: Any = None  # on the devices; None if they must be sent


class RepeatedSamples:
    """Cache that keeps the samples of the last training call on the devices.

    If all clients take part in every round, the first two calls gather the clients' samples and
    send them to the devices, and later calls reuse them. A first call stores nothing, since most
    cohorts train only once.

    Several threads may train. Each call reads the cache once and continues with that copy, and the
    cache is replaced atomically. So no call trains on the samples of another call.
    """

    def __init__(self) -> None:
        self._last = SamplesOfCall()

    def begin(self, clients: Sequence[Int[np.ndarray, "_"]]) -> SamplesOfCall:
        """Start a training call: find its samples if they are already on the devices.

        Args:
            clients: for each device, the clients that it trains.
        """
        # The order of the rows does not matter: samples are gathered by client, in ascending order.
        key = tuple(np.unique(device_clients).tobytes() for device_clients in clients)
        last = self._last
        if key != last.clients:
            self._last = SamplesOfCall(key)
            return self._last
        return SamplesOfCall(key, again=True, samples=last.samples)

    def on_devices(
        self, call: SamplesOfCall, mesh: Mesh, samples: Shaped[np.ndarray, "D R ..."] | None
    ) -> Any:
        """The samples of a training call, on the devices.

        Samples that are already there are reused. Otherwise the given samples are used; they stay
        on the devices if the call before had the same clients.

        Args:
            call: returned by ``begin``.
            mesh: the devices.
            samples: gathered samples; None if the devices have them.
        """
        if call.samples is not None:
            return call.samples
        if not call.again:
            return samples
        kept = shard(mesh, samples)
        self._last = SamplesOfCall(call.clients, samples=kept)
        return kept
