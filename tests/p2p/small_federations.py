"""Small federations of quadratic clients, and storage in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.config.peer_settings import LockstepSettings, PeerSettings
from fedkin.core.errors import StorageError
from fedkin.core.training import LocalTraining
from fedkin.methods.decentralized import PeerMethod
from fedkin.p2p.messages import Message, encode, parse_request
from fedkin.p2p.peer import Peer, PeerMemory, PeerStorage
from fedkin.security.signatures import MessageSigner
from fedkin.simulation.fake_world import FakeWorld
from tests.p2p.memory_network import MemoryNetwork

P = 4


class MemoryStorage:
    """A ``PeerStorage`` that can be full."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.memories: list[PeerMemory] = []
        self.records: list[dict[str, Any]] = []

    def save(self, memory: PeerMemory) -> None:
        self._refuse_if_full()
        self.memories.append(memory)

    def append(self, record: dict[str, Any]) -> None:
        self._refuse_if_full()
        self.records.append(record)

    def _refuse_if_full(self) -> None:
        if self.full:
            raise StorageError("cannot write: No space left on device")


def two_clusters(clients: int = 6, **options: Any) -> FakeWorld:
    """Even clients have one optimum, odd ones the opposite, each with a different slant; all start
    at zero."""
    side = np.where(np.arange(clients) % 2 == 0, 1.0, -1.0)
    slant = 0.2 * np.random.default_rng(0).normal(size=(clients, P))
    target = (3 * side[:, None] + slant).astype(np.float32)
    world = FakeWorld(target, np.arange(10, 10 + clients), work=LocalTraining(lr=0.5), **options)
    return replace(world, start=lambda stream: np.zeros(P))


def make_peer(
    world: Any,
    network: MemoryNetwork,
    client: int,
    method: PeerMethod,
    *,
    name: str | None = None,
    storage: PeerStorage | None = None,
    memory: PeerMemory | None = None,
    lockstep: LockstepSettings | None = None,
    signer: MessageSigner | None = None,
    **options: Any,
) -> Peer:
    """Peer ``p<client>`` of a federation in memory."""
    settings = PeerSettings(name or f"p{client}", "trial", client, **options)
    transport = network.transport(settings.name)
    own = storage if storage is not None else MemoryStorage()
    return Peer(
        settings=settings,
        method=method,
        world=world,
        transport=transport,
        storage=own,
        memory=memory,
        lockstep=lockstep,
        signer=signer,
    )


def constant(
    name: str, round: int, model: list[float], examples: int = 10, update: list[float] | None = None
) -> Any:
    """A handler whose replies have the same arrays in every round."""
    arrays = {"model": np.array(model, np.float32), "update": np.array(update or model, np.float32)}

    def handler(text: str) -> bytes:
        requested = parse_request(text).arrays
        return encode(
            Message(name, round, examples, {key: arrays[key] for key in requested}), "trial"
        )

    return handler
