"""Small federations of quadratic clients, and a disk that is a list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.config.peer_settings import LockstepSettings, PeerSettings
from fedkin.core.errors import StorageError
from fedkin.core.world import LocalTraining
from fedkin.methods.decentralized import PeerMethod
from fedkin.p2p.messages import Message, MessageSigner, asked_for, encode
from fedkin.p2p.peer import Disk, Memory, Peer
from fedkin.simulation.fake_world import FakeWorld
from tests.p2p.memory_network import Switchboard

P = 4


class Notes:
    """A disk (``federation.peer.Disk``) that can be full."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.saved: list[Memory] = []
        self.records: list[dict[str, Any]] = []

    def save(self, memory: Memory) -> None:
        self._refuse()
        self.saved.append(memory)

    def append(self, record: dict[str, Any]) -> None:
        self._refuse()
        self.records.append(record)

    def _refuse(self) -> None:
        if self.full:
            raise StorageError("cannot write notes: No space left on device")


def split_two(clients: int = 6, **options: Any) -> FakeWorld:
    """Even clients want one thing, odd ones the opposite, each with a slant of its own; all begin at zero."""
    side = np.where(np.arange(clients) % 2 == 0, 1.0, -1.0)
    slant = 0.2 * np.random.default_rng(0).normal(size=(clients, P))
    target = (3 * side[:, None] + slant).astype(np.float32)
    world = FakeWorld(target, np.arange(10, 10 + clients), work=LocalTraining(lr=0.5), **options)
    return replace(world, start=lambda stream: np.zeros(P))


def peer(
    world: FakeWorld,
    board: Switchboard,
    client: int,
    method: PeerMethod,
    *,
    name: str | None = None,
    notes: Disk | None = None,
    memory: Memory | None = None,
    lockstep: LockstepSettings | None = None,
    seal: MessageSigner | None = None,
    **about: Any,
) -> Peer:
    """Peer ``p<client>`` of a federation in memory."""
    own = PeerSettings(name or f"p{client}", "trial", client, **about)
    disk = notes if notes is not None else Notes()
    return Peer(own, method, world, board.line(own.name), disk, memory, lockstep=lockstep, seal=seal)


def says(name: str, round: int, model: list[float], examples: int = 10, update: list[float] | None = None) -> Any:
    """An ``answer`` of somebody who says the same in every round."""
    arrays = {"model": np.array(model, np.float32), "update": np.array(update or model, np.float32)}

    def answer(text: str) -> bytes:
        wants, _ = asked_for(text)
        return encode(Message(name, round, examples, {want: arrays[want] for want in wants}), "trial")

    return answer
