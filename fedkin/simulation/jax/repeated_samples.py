"""The samples of a call, which stay on the devices until a call of other clients."""

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
    """The clients of a call, and what is on the devices for it."""

    clients: tuple[bytes, ...] = ()  # of each device
    again: bool = False  # whether the call before had the same
    samples: Any = None  # on the devices; None where they are still to be sent


class RepeatedSamples:
    """Where all clients take part in every round, the first two calls gather and send their
    samples, and all others use what is there. Nothing is kept before a second call of the same
    clients: the first cannot know that one comes, and most cohorts train once.

    Calls may come from several threads: what was kept is read once and replaced at once, and a call
    goes on with what it read, so that none trains on the samples of another.
    """

    def __init__(self) -> None:
        self._last = SamplesOfCall()

    def begin(self, clients: Sequence[Int[np.ndarray, "_"]]) -> SamplesOfCall:
        """The samples of a call that are on the devices already.

        Args:
            clients: of the call's rows, by device.
        """
        key = tuple(np.unique(device_clients).tobytes() for device_clients in clients)
        last = self._last
        if key != last.clients:
            self._last = SamplesOfCall(key)
            return self._last
        return SamplesOfCall(key, again=True, samples=last.samples)

    def on_devices(
        self, call: SamplesOfCall, mesh: Mesh, samples: Shaped[np.ndarray, "D R ..."] | None
    ) -> Any:
        """The samples of a call: those that the devices have, or else these, which stay there where
        the call before had the same clients.

        Args:
            call: what ``begin`` returned.
            mesh: the devices.
            samples: as they were gathered; None where the devices have them.
        """
        if call.samples is not None:
            return call.samples
        if not call.again:
            return samples
        kept = shard(mesh, samples)
        self._last = SamplesOfCall(call.clients, samples=kept)
        return kept
