"""One round of requests to some nodes: lost messages are retried until all have replied or the deadline is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from fedkin.config.server_settings import ServerSettings
from fedkin.server.message import RpcMessage
from fedkin.server.transport import OnlineNode, Reply, Transport

_log = logging.getLogger("fedkin")
_POLL = 0.25  # seconds between queries for replies
_MIN_SHARE = 0.1  # of a round's time: a node that had less to reply in is not suspected


class RequestRound:
    """Sends requests and waits for replies as long as the settings allow.

    ``suspects`` are nodes that missed a deadline, with the heartbeat that they had shown by then: they are sent nothing
    more before another one (not a later one: the engine's clock may be set back).

    Args:
        transport: the engine.
        settings: deadline, quorum and retries.
        clock: seconds now.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        transport: Transport,
        settings: ServerSettings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.transport, self.settings = transport, settings
        self.clock, self.sleep = clock, sleep
        self.suspects: dict[int, float] = {}
        self.bytes_sent = self.bytes_received = 0  # in the last call of ``send``
        self.late_bytes = 0  # of replies that arrived after they were given up
        self.missed: dict[str, int] = {}  # node ids by the ids of requests that the last call of ``send`` gave up
        self._late: list[Reply] = []
        self._deadline = clock() + settings.deadline
        self._given_up: set[str] = set()  # ids of requests whose replies are no longer waited for

    def begin_round(self) -> list[OnlineNode]:
        """Start a round's deadline; the nodes that are online and not suspected."""
        self._deadline = self.clock() + self.settings.deadline
        if self._given_up:  # a reply that is never fetched stays with the engine
            replies = self.transport.pull(self._given_up)
            self._given_up -= {reply.request_id for reply in replies}
            self.late_bytes += sum(reply.size for reply in replies)
            self._late += replies
        return self.online_nodes()

    def late_replies(self) -> list[Reply]:
        """Those that have arrived after they were given up, each once."""
        self._late, replies = [], self._late
        return replies

    def online_nodes(self) -> list[OnlineNode]:
        """Nodes that are online and not suspected."""
        nodes = list(self.transport.nodes())
        back = {node.node_id for node in nodes if node.alive_until != self.suspects.get(node.node_id)}
        self.suspects = {node: alive for node, alive in self.suspects.items() if node not in back}
        return [node for node in nodes if node.node_id not in self.suspects]

    def send(self, requests: Mapping[int, RpcMessage], round: int, late: int = 0) -> dict[int, Reply]:
        """Replies by node id; a node without one in time is left out, and suspected from now on.

        Args:
            requests: by node id.
            round: the present one.
            late: rounds after which a reply is of no use.
        """
        self.missed, longer = {}, late * self.settings.deadline
        self.bytes_sent = self.bytes_received = 0
        start = self.clock()
        end = start + (self._deadline - start) * 2 / 3
        if end <= start and requests:
            _log.warning("round %d: its time is up before requests to %d nodes could be sent", round, len(requests))
        if end <= start:
            return {}
        retries, replies = dict.fromkeys(requests, 0), {}
        waiting = self._push(requests, list(requests), round, end - start + longer)
        while waiting and self.clock() < end:
            for reply in self._pull(waiting):
                node = waiting.pop(reply.request_id, None)
                if node is None:  # a reply that was delivered twice counts once
                    continue
                if reply.lost and retries[node] < self.settings.retries and self._is_online(node):
                    retries[node] += 1
                    waiting |= self._push(requests, [node], round, max(1.0, end - self.clock()) + longer)
                    continue
                replies[node] = reply
                if sum(one.succeeded for one in replies.values()) >= self.settings.quorum * len(requests):
                    end = min(end, start + 2 * (self.clock() - start))
            if waiting:
                self.sleep(_POLL)
        self.missed = waiting
        self._given_up |= set(waiting)
        if waiting and end - start >= _MIN_SHARE * self.settings.deadline:  # else no node could have replied
            alive = {node.node_id: node.alive_until for node in self.transport.nodes()}
            self.suspects |= {node: alive.get(node, 0.0) for node in waiting.values()}
        return replies

    def _push(
        self, requests: Mapping[int, RpcMessage], nodes: list[int], round: int, lifetime: float
    ) -> dict[str, int]:
        """Send; node ids by the ids of the requests that the engine took."""
        messages = self.transport.push([(node, requests[node]) for node in nodes], round, lifetime)
        accepted = [(one, node) for one, node in zip(messages, nodes, strict=True) if one.request_id is not None]
        for node in set(nodes) - {node for _, node in accepted}:
            _log.warning("round %d: the engine did not take a request for node %d", round, node)
        self.bytes_sent += sum(one.size for one, _ in accepted)
        return {str(one.request_id): node for one, node in accepted}

    def _pull(self, waiting: Mapping[str, int]) -> Sequence[Reply]:
        replies = self.transport.pull(waiting)
        self.bytes_received += sum(reply.size for reply in replies)
        return replies

    def _is_online(self, node_id: int) -> bool:
        return any(node.node_id == node_id for node in self.transport.nodes())
