"""An engine in memory (``server.transport.Transport``) with its own clock: nodes that reply at
once, late or never, crash, raise, send invalid replies, come, go and come back with another id.

It behaves as Flower was found to: a node sends a heartbeat every 30 s and counts as online for 60 s
after it; one that was killed stays in the list until then; replies stay with the engine until the
server fetches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkin.config.server_settings import ServerSettings
from fedkin.core.errors import FedkinError
from fedkin.server.egress_receipts import digest_of_reply
from fedkin.server.frames import Frames
from fedkin.server.message import RpcMessage, decode, encode
from fedkin.server.node import Node
from fedkin.server.request_round import RequestRound
from fedkin.server.transport import NodeReply, OnlineNode, SentRequest

# Seconds between heartbeats, and after which one no longer counts.
HEARTBEAT = 30.0
TIMEOUT = 60.0
Handler = Callable[[RpcMessage], RpcMessage]


class Clock:
    """Seconds that pass when a caller sleeps; ``at`` plans events for that time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._plans: list[tuple[float, Callable[[], Any]]] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [plan for plan in self._plans if plan[0] <= end]:
            first = min(due, key=lambda plan: plan[0])
            self._plans.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = end

    def at(self, when: float, action: Callable[[], Any]) -> None:
        self._plans.append((when, action))


@dataclass
class Station:
    """A node as the engine knows it, and how it behaves."""

    handle: Handler
    name: str = ""  # that it is registered under
    key: str = ""
    delay: float = 0.0  # seconds until its reply is there
    # Changes its replies.
    tamper: Callable[[RpcMessage, RpcMessage], RpcMessage] = lambda request, reply: reply
    loses: int = 0  # so many of its next requests are lost, and the engine reports it
    crashes: bool = False  # its process crashes at every request, and the engine reports it
    rejected: bool = False  # the engine takes no request for it
    since: float = 0.0
    # When it was killed, which the engine learns from missing heartbeats.
    killed: float | None = None
    requests: list[RpcMessage] = field(default_factory=list)  # all that it received

    def alive_until(self, now: float) -> float:
        last = now if self.killed is None else self.killed
        return self.since + (last - self.since) // HEARTBEAT * HEARTBEAT + TIMEOUT


@dataclass
class _Due:
    """A reply that arrives at some time, or has arrived."""

    when: float
    node: int
    reply: NodeReply


class MemoryTransport:
    """The engine. ``pushed`` has every request: round, node, operation, and bytes."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.stations: dict[int, Station] = {}
        self.pushed: list[tuple[int, int, str, int]] = []
        self.calls: list[tuple[int, str]] = []  # round and operation of every call of push
        # Operation and bytes of every reply that was fetched.
        self.pulled: list[tuple[str, int]] = []
        self._due: dict[str, _Due] = {}
        self._operations: dict[str, str] = {}

    # --- controls of a test

    def join(self, node: int, handler: Node | Handler, **behaviour: Any) -> Station:
        """A node comes online."""
        handle = handler.handle if isinstance(handler, Node) else handler
        self.stations[node] = Station(handle, since=self.clock.now, **behaviour)
        return self.stations[node]

    def leave(self, node: int) -> Station:
        """A node disconnects: requests to it are lost at once."""
        for request_id, due in self._due.items():
            if due.node == node and due.when > self.clock.now:
                due.when = self.clock.now
                due.reply = _gone(request_id)
        return self.stations.pop(node)

    def kill(self, node: int) -> None:
        """A node dies: requests to it are lost when its heartbeat is missed."""
        station = self.stations[node]
        now = self.clock.now
        station.killed = now
        for request_id, due in self._due.items():
            if due.node == node and due.when > now:
                due.when = station.alive_until(now)
                due.reply = _gone(request_id)

    def operations(self, round: int | None = None) -> list[str]:
        """The operations of a round, without handshakes."""
        return [
            operation
            for when, operation in self.calls
            if operation != "hello" and round in (None, when)
        ]

    @property
    def unfetched(self) -> list[str]:
        """Requests whose replies have arrived and were not fetched."""
        return [request_id for request_id, due in self._due.items() if due.when <= self.clock.now]

    # --- the engine

    def nodes(self) -> Sequence[OnlineNode]:
        now = self.clock.now
        nodes = [
            OnlineNode(node, s.name, s.key, s.alive_until(now)) for node, s in self.stations.items()
        ]
        return [node for node in nodes if node.alive_until > now]

    def push(
        self, requests: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float
    ) -> Sequence[SentRequest]:
        if requests:
            self.calls.append((round, str(requests[0][1].header["operation"])))
        return [self._push(node, request, round) for node, request in requests]

    def pull(self, request_ids: Iterable[str]) -> Sequence[NodeReply]:
        wanted = set(request_ids)
        arrived = sorted(
            (d.when, n) for n, d in self._due.items() if n in wanted and d.when <= self.clock.now
        )
        replies = [self._due.pop(request_id).reply for _, request_id in arrived]
        self.pulled += [(self._operations[reply.request_id], reply.size) for reply in replies]
        return replies

    def _push(self, node: int, request: RpcMessage, round: int) -> SentRequest:
        received, size = transmitted(request)
        station = self.stations.get(node)
        operation = str(request.header["operation"])
        if station is None or station.rejected:
            return SentRequest(None, size)
        request_id = f"request-{len(self._operations)}"
        self._operations[request_id] = operation
        self.pushed.append((round, node, operation, size))
        now = self.clock.now
        if station.killed is None:
            reply = self._reply(station, request_id, received)
            self._due[request_id] = _Due(now if reply.lost else now + station.delay, node, reply)
        else:
            self._due[request_id] = _Due(station.alive_until(now), node, _gone(request_id))
        return SentRequest(request_id, size)

    def _reply(self, station: Station, request_id: str, request: RpcMessage) -> NodeReply:
        if station.loses or station.crashes:
            station.loses -= not station.crashes
            return NodeReply(request_id, None, error="the message was lost", lost=True)
        station.requests.append(request)
        try:
            reply = station.tamper(request, station.handle(request))
        except FedkinError as error:  # as a ClientApp of fedkin reports it
            reply = RpcMessage({"failed": " ".join(str(error).split())})
        except Exception as error:  # as Flower reports it
            return NodeReply(request_id, None, error=f"error 2: {type(error).__name__}: {error}")
        received, size = transmitted(reply)
        digest = digest_of_reply(received, Frames(encode(reply)))
        return NodeReply(request_id, received, size, digest=digest)


def _gone(request_id: str) -> NodeReply:
    return NodeReply(request_id, None, error="the node is gone", lost=True)


def transmitted(message: RpcMessage) -> tuple[RpcMessage, int]:
    """A message after it was encoded and decoded, and its bytes."""
    data = encode(message)
    return decode(data), len(data)


def request_round(transport: MemoryTransport, **settings: Any) -> RequestRound:
    """A RequestRound on the engine's own clock."""
    return RequestRound(
        transport, ServerSettings(**settings), transport.clock.time, transport.clock.sleep
    )
