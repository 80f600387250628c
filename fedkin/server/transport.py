"""Interface of the transport, which carries messages between a server and its nodes. Most tests use
a transport in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedkin.server.message import RpcMessage


@dataclass(frozen=True)
class OnlineNode:
    """A node that is online.

    It has an id, its registered name and key (empty if it is not registered), and the time until
    which its last heartbeat is valid.
    """

    node_id: int
    name: str = ""
    key: str = ""
    alive_until: float = 0.0


@dataclass(frozen=True)
class SentRequest:
    """A sent request: its id and its size in bytes. The id is None if the transport did not accept
    the request."""

    request_id: str | None
    size: int


@dataclass(frozen=True)
class NodeReply:
    """The reply to a request, or an error.

    ``lost`` says that the error happened in transit. ``digest`` is the digest of the reply's bytes
    (``egress_receipts.digest_of_reply``).
    """

    request_id: str
    message: RpcMessage | None
    size: int = 0  # bytes
    error: str = ""
    lost: bool = False
    digest: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the node has completed the request."""
        return self.message is not None and "failed" not in self.message.header


@runtime_checkable
class Transport(Protocol):
    """Carries messages between a server and its nodes."""

    def nodes(self) -> Sequence[OnlineNode]:
        """The nodes that are online."""
        ...

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        """Send each request to its node id. Replies are not needed after ``lifetime`` seconds."""
        ...

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        """The replies to these requests that have arrived."""
        ...
