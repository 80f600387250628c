"""Interface of the engine that carries messages. Most tests use an in-memory engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedkin.server.message import RpcMessage


@dataclass(frozen=True)
class OnlineNode:
    """An online node.

    It has its id at the engine, its registered name and key (empty if it is not registered), and
    the time until which its last heartbeat is valid.
    """

    node_id: int
    name: str = ""
    key: str = ""
    alive_until: float = 0.0


@dataclass(frozen=True)
class SentRequest:
    """A sent request: its id at the engine and its size in bytes. The id is None if the engine did
    not accept it."""

    request_id: str | None
    size: int


@dataclass(frozen=True)
class NodeReply:
    """The reply to a request; or an error, and whether it happened in transit (``lost``)."""

    request_id: str
    message: RpcMessage | None
    size: int = 0  # bytes
    error: str = ""
    lost: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the node did the request."""
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
        """Send each request to its node id; replies are not needed after ``lifetime`` seconds."""
        ...

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        """The replies to these requests that have arrived."""
        ...
