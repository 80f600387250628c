"""The engine that carries messages, as the server needs it; most tests use one in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedkin.server.message import RpcMessage


@dataclass(frozen=True)
class OnlineNode:
    """A node that is online: its id at the engine, the name and the key that it is registered under
    (empty where it is not), and the time until which its last heartbeat holds."""

    node_id: int
    name: str = ""
    key: str = ""
    alive_until: float = 0.0


@dataclass(frozen=True)
class SentRequest:
    """A request that was sent: its id at the engine, and its bytes. The id is None where the engine
    did not take it."""

    request_id: str | None
    size: int


@dataclass(frozen=True)
class Reply:
    """The reply to a request, or the error in its place and whether it happened on the way
    (``lost``)."""

    request_id: str
    message: RpcMessage | None
    size: int = 0  # bytes
    error: str = ""
    lost: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the node has done the request."""
        return self.message is not None and "failed" not in self.message.header


@runtime_checkable
class Transport(Protocol):
    """An engine that carries messages."""

    def nodes(self) -> Sequence[OnlineNode]:
        """The nodes that are online."""
        ...

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        """Send each of these to its node id; replies are of no use after ``lifetime`` seconds."""
        ...

    def pull(self, request_ids: Iterable[str]) -> Sequence[Reply]:
        """The replies that have arrived to these requests."""
        ...
