"""The nodes of a federation: which are online, what they state in the handshake, and which of them
take part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.log_events import event
from fedkin.core.schema import MAX_COUNT
from fedkin.server.handshake import Handshake, check
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.node_registry import Memory, NodeRegistry, natural_order
from fedkin.server.request_round import RequestRound
from fedkin.server.transport import OnlineNode

_log = logging.getLogger("fedkin")
_POLL = 0.5  # seconds between queries for nodes while too few clients are online
_REMINDER = 60.0  # seconds between log lines while waiting
_FIRST_SITE = 3600.0  # seconds allowed to register and start the first site
# Seconds after which a refused node may try again; at once if it was offline in between.
_RETRY_REFUSED = 120.0
SITE_STATES = ("online", "absent", "refused")  # of ``Membership.site_states``
_MAX_LOST = 3  # number of lost handshakes after which a node counts as refused


class Candidate(NamedTuple):
    """A node with a correct handshake that the server has not accepted yet."""

    node: OnlineNode
    samples: Int[np.ndarray, "c"]  # number of training samples of each client


class Membership:
    """The nodes that one server process knows, and which of them take part.

    The server sends its handshake to each new node. No round waits for the reply: the node's
    clients take part from the first round after the reply.

    Args:
        request_round: sends and receives messages.
        own: the server's handshake.
        classes: number of classes C.
        save: called with the registry's content whenever a node has been accepted.
        signed: whether clients sign their keys, as in ``NodeRegistry``.

    Attributes:
        waiting: a line about the clients that the server waits for; empty if it does not wait.
        on_change: called whenever the participating nodes or ``waiting`` may have changed.
        removed: returns the names of the nodes that were removed for good.
        interrupted: returns whether the run ends, so that the next round is not waited for.
        states: further entries of the server's handshake.
    """

    def __init__(
        self,
        request_round: RequestRound,
        own: Handshake,
        classes: int,
        save: Callable[[Memory], None] = lambda memory: None,
        signed: bool = False,
    ) -> None:
        self.request_round = request_round
        self.own = own
        self.classes = classes
        self._save = save
        self.registry = NodeRegistry(
            request_round.settings.capacity, request_round.settings.registered, signed
        )
        self.waiting = ""
        self.on_change: Callable[[], None] = lambda: None
        self.removed: Callable[[], Collection[str]] = tuple
        self.interrupted: Callable[[], bool] = lambda: False
        self.states: dict[str, Any] = {}
        # Whether every node makes the same initial model as the server from one seed.
        self.same_start = True
        self._handshake_bytes = [0, 0]  # sent, received
        self._online: list[OnlineNode] = []
        self._started = False
        self._last_start = -np.inf  # time at which the last round began
        self._handshakes: dict[str, OnlineNode] = {}  # unanswered handshakes by request id
        self._refused_since: dict[int, float] = {}
        self._lost: dict[int, int] = {}  # number of lost handshakes by node id
        self._candidates: dict[str, Candidate] = {}  # by node name

    def handshake_bytes(self) -> tuple[int, int]:
        """Bytes of handshakes, sent and received, since the last call of this function."""
        bytes_sent, bytes_received = self._handshake_bytes
        self._handshake_bytes = [0, 0]
        return bytes_sent, bytes_received

    def online_clients(self) -> Int[np.ndarray, "c"]:
        """Ids of the clients that can receive requests, ascending."""
        suspects = self.request_round.suspects
        return self.registry.online_clients(
            node for node in self._online if node.node_id not in suspects
        )

    def site_states(self) -> dict[str, str]:
        """The state of each accepted or refused node, by name: one of ``SITE_STATES``.
        Nodes that were removed for good are left out."""
        suspects = self.request_round.suspects
        reachable = [node for node in self._online if node.node_id not in suspects]
        removed = self.removed()
        online, absent, refused = SITE_STATES
        states = {name: absent for name in self.registry.members if name not in removed}
        states |= dict.fromkeys(self.registry.online_names(reachable), online)
        return states | dict.fromkeys(self.registry.refusals, refused)

    def candidates(self) -> list[str]:
        """Names of the nodes that may take part but have not been accepted yet."""
        return sorted(self._candidates, key=natural_order)

    def begin_round(self, round: int) -> None:
        """Accept the nodes whose handshakes have arrived.

        A round begins at least ``settings.round_interval`` seconds after the one before. The first
        round of this process waits for ``settings.wait_for`` clients. In a resumed run it waits no
        longer than a deadline, because some clients may have left for good. Every later round waits
        until at least one client is online.

        Raises:
            ConfigError: too few clients are ready for the first round
                (``settings.start_deadline``).
        """
        if self._started:
            self._wait_for_interval(round)
            self._online = self.request_round.begin_round()
            self._meet(round, at_least=0)
            self.on_change()
            if not len(self.online_clients()):
                self.wait_for_clients(1, round)
        else:
            settings = self.request_round.settings
            # A resumed run knows clients already, and does not wait for all of them.
            patience = settings.deadline if len(self.registry) else np.inf
            self.wait_for_clients(settings.wait_for, round, patience)
            self._started = True
        self._last_start = self.request_round.clock()

    def _wait_for_interval(self, round: int) -> None:
        """Wait until a round may begin after the one before. Nodes that come meanwhile are
        accepted."""
        start = self._last_start + self.request_round.settings.round_interval
        while (left := start - self.request_round.clock()) > 0 and not self.interrupted():
            self.request_round.sleep(min(_POLL, left))
            self.request_round.fetch_late()
            self._online = self.request_round.online_nodes()
            self._meet(round, at_least=0)
            self.on_change()

    def wait_for_clients(self, clients: int, round: int = 0, patience: float = np.inf) -> None:
        """Wait until enough clients are online; after ``patience`` seconds one client is enough.

        The time until the deadline of the first round counts from when the first node is online,
        because the sites' keys may have to be registered before. After an hour without a node, the
        time counts nevertheless.

        Raises:
            ConfigError: too few clients are ready for the first round, or all nodes are refused.
        """
        start = reminded = self.request_round.clock()
        deadline_start = start
        came = False  # whether a node has been online
        _log.info("waiting for %d client%s", clients, "s" * (clients > 1))
        self._online = self.request_round.online_nodes()
        while not self._meet(round, clients):
            self.waiting = self._waiting_for(clients)
            self.on_change()
            now = self.request_round.clock()
            if now - start >= patience and clients > 1:
                _log.warning(
                    "only some of %d clients came in %.0f s; the run continues with these",
                    clients,
                    now - start,
                )
                clients = 1
                continue
            # The deadline of the first round does not begin before a node has come.
            if not self._started and not came and now - start < _FIRST_SITE:
                came = bool(self._online)
                deadline_start = now
            if self._waits_in_vain(now - deadline_start):
                raise ConfigError(self._too_few(clients, now - deadline_start))
            if now - reminded > _REMINDER:
                reminded = now
                _log.warning("after %.0f s still %s", now - start, self.waiting)
            self.request_round.sleep(_POLL)
            self._online = self.request_round.online_nodes()
        self.waiting = ""
        self.on_change()
        # The waiting is over, so the round's time starts now.
        self._online = self.request_round.begin_round()

    def _waiting_for(self, clients: int) -> str:
        """The line about the clients that the server waits for, and how many are ready."""
        waited = f"waiting for {clients} client{'s' * (clients != 1)}"
        return f"{waited}: {self._ready()} ready, {len(self.registry.refusals)} refused"

    def _ready(self) -> int:
        """Number of online clients that the server has accepted or can accept."""
        candidates = sum(len(candidate.samples) for candidate in self._candidates.values())
        return len(self.online_clients()) + candidates

    def _waits_in_vain(self, seconds: float) -> bool:
        """Whether to stop waiting for clients.

        The wait for the first round ends after its deadline. A later wait ends if every online node
        is refused; offline nodes may still come back.
        """
        if seconds < self.request_round.settings.first_wait:
            return False
        online = {node.node_id for node in self._online}
        return not self._started or (bool(online) and online <= self.registry.refused.keys())

    def _too_few(self, clients: int, seconds: float) -> str:
        """The error message that ends the run because too few clients are ready."""
        ready = self._ready()
        refused = [
            f"{name} is refused: {reason}" for name, reason in self.registry.refusals.items()
        ]
        cures = ["fix or start the other sites"]
        if 0 < ready < clients:
            cures.append(f"set federation.wait_for={ready} in server.toml")
        cures.append("set a longer federation.start_deadline there")
        ready_line = f"{ready} of {clients} clients are ready after {seconds:.0f} s"
        found = "; ".join([ready_line, *refused])
        return (
            f"the run cannot continue: {found}. {', or '.join(cures)}; then start it again with "
            "fedkin deploy up"
        )

    def _meet(self, round: int, at_least: int) -> bool:
        """Send handshakes to new nodes, and accept candidates (nodes with a correct handshake) if
        there are enough clients.

        Returns whether at least ``at_least`` clients are online and accepted.

        Candidates are accepted together, not as they come: at the start, clients' ids are then in
        the order of the nodes' names.
        """
        self._retry_refused()
        self._send_handshakes(round)
        for node, message in self._received_handshakes():
            self._check(node, message)
        new = sum(len(candidate.samples) for candidate in self._candidates.values())
        if len(self.online_clients()) + new < at_least:
            return False
        for name in sorted(self._candidates, key=natural_order):
            self._accept(name, self._candidates[name])
        self._candidates = {}
        return len(self.online_clients()) >= at_least

    def _retry_refused(self) -> None:
        """Allow a new handshake for refused nodes that went offline or have waited long enough."""
        now = self.request_round.clock()
        online = {node.node_id for node in self._online}
        self.registry.forget_absent(online)
        refused = self.registry.refused.keys()
        self._refused_since = {node: self._refused_since.get(node, now) for node in refused}
        may_retry = []
        for node in refused:
            waited = now - self._refused_since[node]
            if node not in online or waited >= _RETRY_REFUSED:
                may_retry.append(node)
        self.registry.allow_retry(may_retry)

    def _send_handshakes(self, round: int) -> None:
        """Send the server's handshake to nodes that have not received it yet."""
        # Nodes that have not answered their handshake yet, or have and wait to be accepted.
        pending = {
            *self._handshakes.values(),
            *(candidate.node for candidate in self._candidates.values()),
        }
        ids = {node.node_id for node in pending}
        new = [node for node in self.registry.unknown(self._online) if node.node_id not in ids]
        if not new:
            return
        request = RpcMessage({"operation": "hello", **self.states, **self.own.header()})
        lifetime = float(self.request_round.settings.deadline)
        messages = self.request_round.transport.push(
            [(node.node_id, request) for node in new], round, lifetime
        )
        for sent, node in zip(messages, new, strict=True):
            if sent.request_id is not None:
                self._handshakes[sent.request_id] = node
                self._handshake_bytes[0] += sent.size

    def _received_handshakes(self) -> list[tuple[OnlineNode, RpcMessage]]:
        """The replies to handshakes that have arrived.

        A node whose handshake was lost in transit gets another one, up to a few times.
        """
        if not self._handshakes:
            return []
        replies = list(self.request_round.transport.pull(self._handshakes))
        self._handshake_bytes[1] += sum(reply.size for reply in replies)
        received = []
        for reply in replies:
            node = self._handshakes.pop(reply.request_id, None)
            # A reply that is delivered twice counts once.
            if node is None:
                continue
            if reply.message is not None:
                received.append((node, reply.message))
            else:
                # A message that was lost in transit may arrive next time; another error would come
                # again, so the node is refused at once.
                self._lost[node.node_id] = self._lost.get(node.node_id, 0) + 1
                if not reply.lost or self._lost[node.node_id] >= _MAX_LOST:
                    self._lost.pop(node.node_id)
                    self.registry.refuse(node, "", reply.error)
        return received

    def _check(self, node: OnlineNode, message: RpcMessage) -> None:
        """Read a node's reply to the handshake, and make the node a candidate or refuse it."""
        name = str(message.header.get("name", ""))
        try:
            for reason in ("refused", "failed"):
                if reason in message.header:
                    raise InvalidMessageError(str(message.header[reason]))
            other = Handshake.of(message)
            check(self.own, other, "at the server", "at the site")
            samples = message.integers("samples", np.size(message.arrays.get("samples", ())))
            if not len(samples) or not 1 <= samples.min() <= samples.max() <= MAX_COUNT:
                raise InvalidMessageError(
                    "each client of a site must have training samples, but some clients of this "
                    "site have none"
                )
            self.registry.check(node, name, len(samples))
        except InvalidMessageError as error:
            self.registry.refuse(node, name, str(error))
            return
        if name in self._candidates and self._candidates[name].node.node_id != node.node_id:
            former = self._candidates[name].node.node_id
            _log.info("%s is back as node %d in place of node %d", name, node.node_id, former)
            self.registry.replace(former, name)
        self.registry.clear_refusal(node, name)
        # If one node makes another initial model, models are sent in full to all nodes.
        self.same_start &= other.start == self.own.start
        self._candidates[name] = Candidate(node, samples)

    def _accept(self, name: str, candidate: Candidate) -> None:
        """Accept a candidate (node with a correct handshake) and save the registry, or refuse the
        node with a reason."""
        try:
            info = self.registry.accept(candidate.node, name, candidate.samples)
        except InvalidMessageError as error:
            self.registry.refuse(candidate.node, name, str(error))
            return
        last = info.first + info.count - 1
        facts = event("site_accepted", site=name)
        _log.info("%s takes part: clients %d to %d", name, info.first, last, extra=facts)
        self._save(self.registry.memory())
