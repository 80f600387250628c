"""One round of requests to nodes, with retries until all have replied or the deadline has
passed."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedkin.config.server_settings import ServerSettings
from fedkin.server.message import RpcMessage
from fedkin.server.transport import NodeReply, OnlineNode, Transport

_log = logging.getLogger("fedkin")
_POLL = 0.25  # seconds between queries for replies
_MIN_SHARE = 0.1  # share of a round's time; a node that had less time is not suspected
_SHARE = 2 / 3  # largest share of a round's remaining time that one call may take
_REMEMBERED = 8  # number of reply times stored per node and operation
# Seconds by which a round's requests may exceed its deadline, for the last pulls of replies.
GRACE = 5.0


class Enough(NamedTuple):
    """When a task has enough replies: those of ``replies`` clients. ``clients`` is the number of
    clients of each node."""

    replies: int
    clients: Mapping[int, int]

    def reached(self, replies: Mapping[int, NodeReply]) -> bool:
        """Whether enough clients have replied.

        Args:
            replies: the replies so far, by node id.
        """
        succeeded = [node for node, reply in replies.items() if reply.succeeded]
        return sum(self.clients[node] for node in succeeded) >= self.replies


class _Work(NamedTuple):
    """Work of a node for which the server does not wait any more."""

    node: int
    until: float  # time after which the node drops the request


@dataclass
class _Call:
    """The requests of one call of ``RequestRound.send``, and their replies.

    Attributes:
        requests: request for each node id.
        round: round of the requests.
        operation: name of their task.
        start: time at which they were sent.
        end: time at which the call ends.
        longer: seconds after the end in which a late reply can be used.
        waiting: node ids of the requests without a reply, by request id.
        expires: time after which a request's node drops it, by request id.
        replies: replies by node id.
        expired: nodes whose requests were lost until the end.
        retries: how often a request was sent again, by node id.
    """

    requests: Mapping[int, RpcMessage]
    round: int
    operation: str
    start: float
    end: float
    longer: float
    waiting: dict[str, int] = field(default_factory=dict)
    expires: dict[str, float] = field(default_factory=dict)
    replies: dict[int, NodeReply] = field(default_factory=dict)
    expired: list[int] = field(default_factory=list)
    retries: Counter[int] = field(default_factory=Counter)


class RequestRound:
    """Sends requests, and waits for replies as long as the settings allow.

    ``suspects`` are nodes that missed a deadline, with their last heartbeat at that time. They get
    no requests until their heartbeat differs. The new heartbeat need not be later, because the
    clock of Flower's server may be set back.

    Args:
        transport: sends the messages.
        settings: deadline, quorum and retries.
        clock: returns the time in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        transport: Transport,
        settings: ServerSettings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.transport = transport
        self.settings = settings
        self.clock = clock
        self.sleep = sleep
        self.suspects: dict[int, float] = {}
        # Nodes to which the last call of ``send`` has sent a request that was accepted.
        self.sent: set[int] = set()
        # Bytes of the last call of ``send``.
        self.bytes_sent = 0
        self.bytes_received = 0
        self.late_bytes = 0  # bytes of replies that came after their requests were abandoned
        # Node ids by the ids of requests that the last call of ``send`` abandoned.
        self.missed: dict[str, int] = {}
        self.had_enough = False  # whether the last call of ``send`` ended with enough replies
        self._late: list[NodeReply] = []
        self._deadline = clock() + settings.deadline
        self._given_up: set[str] = set()  # ids of abandoned requests, whose replies may still come
        # Requests that were abandoned because others had replied, by their ids.
        self._unfinished: dict[str, _Work] = {}
        # Durations of each node's last replies to each operation.
        self._seconds: dict[tuple[int, str], deque[float]] = {}

    def begin_round(self) -> list[OnlineNode]:
        """Begin a round: the time until its deadline counts from now. Returns the nodes that are
        online and not suspected."""
        self._deadline = self.clock() + self.settings.deadline
        self.fetch_late()
        return self.online_nodes()

    def wait(self) -> bool:
        """Wait a moment, and fetch the replies to abandoned requests.

        Returns:
            False, without waiting, if two thirds of the round's time are over. The rest is left for
            later requests of the round.
        """
        if self.clock() >= self._deadline - (1 - _SHARE) * self.settings.deadline:
            return False
        self.sleep(_POLL)
        self.fetch_late()
        return True

    def fetch_late(self) -> None:
        """Fetch the replies to abandoned requests. A reply stays at Flower's server until then."""
        if self._given_up:
            replies = self.transport.pull(self._given_up)
            finished = {reply.request_id for reply in replies}
            self._given_up -= finished
            for request in finished & self._unfinished.keys():
                del self._unfinished[request]
            self.late_bytes += sum(reply.size for reply in replies)
            self._late += replies

    def late_replies(self) -> list[NodeReply]:
        """Replies that came after their requests were abandoned, each returned once."""
        replies = self._late
        self._late = []
        return replies

    def nodes_at_work(self) -> set[int]:
        """The nodes that still work at a request that ended with the replies of others. A node does
        one request after another, so it would answer a new one only after that."""
        now = self.clock()
        self._unfinished = {
            request: work for request, work in self._unfinished.items() if work.until > now
        }
        return {work.node for work in self._unfinished.values()}

    def online_nodes(self) -> list[OnlineNode]:
        """The nodes that are online and not suspected."""
        nodes = list(self.transport.nodes())
        back = {
            node.node_id for node in nodes if node.alive_until != self.suspects.get(node.node_id)
        }
        self.suspects = {node: alive for node, alive in self.suspects.items() if node not in back}
        return [node for node in nodes if node.node_id not in self.suspects]

    def send(
        self,
        requests: Mapping[int, RpcMessage],
        round: int,
        late: int = 0,
        enough: Enough | None = None,
    ) -> dict[int, NodeReply]:
        """Send requests, and return the replies by node id.

        Nodes that do not reply in time are left out, and are suspected from now on, unless enough
        others have replied.

        A call of ``send`` takes at most two thirds of the round's remaining time. So if a node
        dies, a third of that time is left for later requests of the round.

        Args:
            requests: request for each node id, all of the same operation (name of a task).
            round: the present round.
            late: for how many further rounds a late reply can be used.
            enough: when no further reply is waited for; None: all replies are.
        """
        self.missed = {}
        self.had_enough = False
        self.sent = set()
        self.bytes_sent = 0
        self.bytes_received = 0
        if not requests:
            return {}
        operation = str(next(iter(requests.values())).header["operation"])
        start = self.clock()
        end = start + _SHARE * (self._deadline - start)
        if end <= start:
            _log.warning(
                "round %d, %s: the deadline passed before requests could be sent to %d nodes",
                round,
                operation,
                len(requests),
            )
            return {}
        call = _Call(
            requests=requests,
            round=round,
            operation=operation,
            start=start,
            end=end,
            longer=late * self.settings.deadline,
        )
        self._push(call, list(requests), end - start + call.longer)
        while call.waiting:
            # A pull or a sleep may take long, so replies that arrived meanwhile are fetched once
            # more after the deadline.
            over = self.clock() >= call.end
            for reply in self._pull(call.waiting):
                self._take(reply, call, over)
            self.had_enough = enough is not None and enough.reached(call.replies)
            if over or not call.waiting or self.had_enough:
                break
            self.sleep(_POLL)
        self._give_up(call)
        return call.replies

    def _take(self, reply: NodeReply, call: _Call, over: bool) -> None:
        """Store a reply that has arrived, or send its request again if it was lost.

        Args:
            reply: the reply.
            call: the requests of the present call of ``send``; changed in place.
            over: whether the time of the call is over.
        """
        node = call.waiting.pop(reply.request_id, None)
        # A reply that is delivered twice counts once.
        if node is None:
            return
        may_retry = not over and call.retries[node] < self.settings.retries
        if may_retry and reply.lost and self._is_online(node):
            call.retries[node] += 1
            lifetime = max(1.0, call.end - self.clock()) + call.longer
            self._push(call, [node], lifetime)
            return
        call.replies[node] = reply
        if over and reply.lost:
            call.expired.append(node)
        self._note_time(node, call.operation, reply, self.clock() - call.start)
        # After a quorum, the other nodes get as much time again as the quorum took.
        succeeded = sum(reply.succeeded for reply in call.replies.values())
        if succeeded >= self.settings.quorum * len(call.requests):
            call.end = min(call.end, call.start + 2 * (self.clock() - call.start))

    def _give_up(self, call: _Call) -> None:
        """Abandon the requests that still have no reply. Their nodes are suspected, unless enough
        others have replied."""
        self.missed = call.waiting
        self._given_up |= set(call.waiting)
        if self.had_enough:
            for request, node in call.waiting.items():
                self._unfinished[request] = _Work(node, until=call.expires[request])
        else:
            nodes = [*call.waiting.values(), *call.expired]
            self._suspect(nodes, call.operation, call.end - call.start)

    def _longest(self, node: int, operation: str) -> float:
        """The longest time, in seconds, of a node's last replies to an operation; 0 if there is
        none."""
        return max(self._seconds.get((node, operation), ()), default=0.0)

    def _note_time(self, node: int, operation: str, reply: NodeReply, seconds: float) -> None:
        """Store how long a node took to complete a request."""
        if reply.succeeded:
            key = (node, operation)
            times = self._seconds.setdefault(key, deque(maxlen=_REMEMBERED))
            times.append(seconds)

    def _suspect(self, nodes: Iterable[int], operation: str, seconds: float) -> None:
        """Suspect nodes that did not reply, except nodes that had too little time.

        Too little is less time than they recently needed for the same operation, or less than a
        tenth of a round.
        """
        least = _MIN_SHARE * self.settings.deadline
        enough = {node: max(least, self._longest(node, operation)) for node in nodes}
        suspected = [node for node, needed in enough.items() if seconds >= needed]
        if not suspected:
            return
        alive = {node.node_id: node.alive_until for node in self.transport.nodes()}
        self.suspects |= {node: alive.get(node, 0.0) for node in suspected}

    def _push(self, call: _Call, nodes: list[int], lifetime: float) -> None:
        """Send the requests of a call to some of its nodes.

        Args:
            call: the requests of the present call of ``send``; changed in place.
            nodes: the nodes.
            lifetime: seconds after which the nodes drop the requests.
        """
        requests = [(node, call.requests[node]) for node in nodes]
        messages = self.transport.push(requests, call.round, lifetime)
        expires = self.clock() + lifetime
        for message, node in zip(messages, nodes, strict=True):
            if message.request_id is None:
                _log.warning(
                    "round %d, %s: Flower did not accept a request for node %d",
                    call.round,
                    call.operation,
                    node,
                )
                continue
            call.waiting[message.request_id] = node
            call.expires[message.request_id] = expires
            self.sent.add(node)
            self.bytes_sent += message.size

    def _pull(self, waiting: Mapping[str, int]) -> Sequence[NodeReply]:
        """The replies to waiting requests that have arrived. The replies' bytes are counted."""
        replies = self.transport.pull(waiting)
        self.bytes_received += sum(reply.size for reply in replies)
        return replies

    def _is_online(self, node_id: int) -> bool:
        """Whether a node is online, even if it is suspected."""
        return any(node.node_id == node_id for node in self.transport.nodes())
