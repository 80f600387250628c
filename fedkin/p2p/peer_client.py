"""A peer's requests to other peers. Replies are checked and counted. In lockstep, a peer waits for
the others in every round."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Bool

from fedkin.config.peer_settings import LockstepSettings, PeerSettings
from fedkin.p2p.messages import (
    STATUS,
    Message,
    PeerMessageError,
    Request,
    decode,
    encode,
    request_text,
)
from fedkin.p2p.peer_table import PeerTable
from fedkin.p2p.response_cache import ResponseCache
from fedkin.p2p.transport import PeerTransport
from fedkin.security.signatures import MessageSigner

_log = logging.getLogger("fedkin")
_POLL = 0.05  # seconds between requests while the peer waits
_FIRST_CONTACT = 1.0  # seconds to search for other peers before a log line says that there are none


@dataclass
class ExchangeCounts:
    """Requests, replies and failures of a round: names of peers that were queried and that replied,
    and the number of failures by reason."""

    requested: list[str] = field(default_factory=list)
    replied: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    bytes_received: int = 0


class PeerClient:
    """Sends requests to the other peers, and serves this peer's messages to them.

    Args:
        settings: settings of this peer.
        table: the known peers.
        transport: reaches the peers.
        parameters: number of parameters P.
        timeout: seconds to wait for a reply.
        lockstep: the peers that run in lockstep (they wait for each other in every round); None for
            asynchronous rounds.
        signer: signs and checks messages; None if peers have no certificates.
        labels: what the peer's labels are (``label_words``); empty for classes.
        backbone: digest of the model's arrays that are not trained; empty without any.
        clock: returns the time in seconds.

    All waiting ends when the event ``stopped`` is set.
    """

    def __init__(
        self,
        settings: PeerSettings,
        table: PeerTable,
        transport: PeerTransport,
        parameters: int,
        timeout: float | int = 5.0,
        lockstep: LockstepSettings | None = None,
        signer: MessageSigner | None = None,
        labels: str = "",
        backbone: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.table = table
        self.counts = ExchangeCounts()
        self.stopped = threading.Event()
        self._transport = transport
        self._parameters = parameters
        self._timeout = timeout
        self._lockstep = lockstep
        self._signer = signer
        self._clock = clock
        self._labels = labels
        self._backbone = backbone
        encoded = partial(
            encode,
            federation=settings.federation,
            signer=signer,
            labels=labels,
            backbone=backbone,
        )
        self._cache = ResponseCache(encoded)
        self._online = False

    def serve(self, message: Message) -> None:
        """Answer other peers' requests with this message from now on. The first call of ``serve``
        brings this peer online.

        Raises ConfigError if another peer has the same name.
        """
        self._cache.add(message)
        if not self._online:
            self._transport.serve(self._cache.reply)
            self._online = True
            self._await_first_peers()
        self.table.update_sessions(self._transport.peers())

    def reachable(self) -> Bool[np.ndarray, "1 N"]:
        """Mask of the peers that can be queried; in lockstep only peers of the lockstep list."""
        reachable = self.table.reachable()
        if self._lockstep is None:
            return reachable
        return reachable & self.table.mask(self._lockstep.peers)

    def request(self, names: list[str], arrays: tuple[str, ...], round: int) -> dict[str, Message]:
        """Request arrays from peers. Wrong, late and missing replies are counted and left out.

        Args:
            names: names of the peers.
            arrays: names of the arrays, such as ``messages.MODEL``.
            round: round of this peer; in lockstep the replies must be of the same round.

        Returns:
            The checked replies by the peers' names.
        """
        # Without lockstep peers are in different rounds, so any round is accepted that is not older
        # than the peer's last reply.
        required = round if self._lockstep else None
        replies = {}
        for name, data in self._exchange(names, request_text(arrays, required)).items():
            request = Request(
                federation=self.settings.federation,
                name=name,
                arrays=arrays,
                parameters=self._parameters,
                min_round=self.table.last_round(name),
                labels=self._labels,
                backbone=self._backbone,
                round=required,
            )
            try:
                replies[name] = self._decode(data, request)
            except PeerMessageError as error:
                self.counts.failures[error.reason] += 1
                self.table.record_failure(name, error.reason, error.detail)
            else:
                self.table.record_reply(name, replies[name].round)
        self.counts.requested += names
        self.counts.replied += replies
        return replies

    def finish_round(self, round: int) -> None:
        """Announce a finished round. In lockstep, wait until all reachable peers announce it
        too."""
        # A status has no model. Its number of samples is 1, since a message must have at least 1.
        self._cache.set_status(Message(self.settings.name, round, 1))
        if self._lockstep and self._online:
            self._wait_until(lambda: not self._is_any_behind(round))

    def pop_bytes_sent(self) -> int:
        """Bytes sent to other peers since the last call of this function."""
        return self._cache.pop_bytes_sent()

    def close(self) -> None:
        """Leave the network."""
        self._transport.close()

    # --- replies

    def _exchange(self, names: list[str], text: str) -> dict[str, tuple[bytes, ...]]:
        """Send one request to all named peers, and return their undecoded replies by name. In
        lockstep the request is repeated until all have replied or the deadline is over."""
        if not names:
            return {}
        if self._lockstep is None:
            return self._transport.request(names, text, self._timeout)
        replies: dict[str, tuple[bytes, ...]] = dict.fromkeys(names, ())
        self._wait_until(lambda: self._complete(replies, text))
        return replies

    def _complete(self, replies: dict[str, tuple[bytes, ...]], text: str) -> bool:
        """Query those peers again that have not replied, and add their replies to ``replies``.
        Returns whether all have replied now."""
        missing = [name for name, data in replies.items() if not data]
        replies |= self._transport.request(missing, text, self._timeout)
        return all(replies.values())

    def _decode(self, replies: tuple[bytes, ...], request: Request) -> Message:
        """Decode a peer's only reply to a request.

        Raises PeerMessageError if there is no reply, if there are two different replies, or if the
        reply is invalid.
        """
        self.counts.bytes_received += sum(map(len, replies))
        if len(replies) != 1:
            raise PeerMessageError("contradiction" if replies else "silent")
        return decode(replies[0], request, self._signer)

    # --- waiting

    def _await_first_peers(self) -> None:
        """Wait for other peers: briefly, or in lockstep until all are online.

        If no other peer comes, this is logged, and the peer trains alone until one comes.
        """
        if self._lockstep:
            others = set(self._lockstep.peers) - {self.settings.name}
            self._wait_until(lambda: others <= self._transport.peers().keys())
            return
        end = self._clock() + _FIRST_CONTACT
        while not self._transport.peers() and self._clock() < end and not self.stopped.wait(_POLL):
            pass
        if not self._transport.peers():
            _log.warning(
                "peer %s: no other peer can be reached; this peer trains alone, and keeps trying",
                self.settings.name,
            )

    def _is_any_behind(self, round: int) -> bool:
        """Whether any reachable peer of the lockstep list has not finished this round."""
        assert self._lockstep is not None
        names = [name for name in self._transport.peers() if name in self._lockstep.peers]
        replies = self._transport.request(names, request_text(STATUS), self._timeout)
        return any(self._finished_round(name, replies[name]) < round for name in names)

    def _finished_round(self, name: str, replies: tuple[bytes, ...]) -> int:
        """The last finished round in a peer's reply to a status request; -1 if the reply cannot be
        used, so that this peer waits for another reply."""
        request = Request(
            federation=self.settings.federation,
            name=name,
            arrays=STATUS,
            parameters=self._parameters,
            labels=self._labels,
            backbone=self._backbone,
        )
        try:
            return self._decode(replies, request).round
        except PeerMessageError:
            return -1

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """Wait for a condition, until the lockstep deadline or until the peer is stopped."""
        assert self._lockstep is not None
        end = self._clock() + self._lockstep.deadline
        while not done() and self._clock() < end and not self.stopped.wait(_POLL):
            pass
