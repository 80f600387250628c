"""What one peer has to do with the others: who is there, what they answer, and keeping step where that is wished."""

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

from fedkin.p2p.messages import STATUS, Message, MessageSigner, Question, WireError, decode, encode, what
from fedkin.p2p.peer_table import PeerTable
from fedkin.p2p.response_cache import ResponseCache
from fedkin.p2p.settings import LockstepSettings, PeerSettings
from fedkin.p2p.zenoh_transport import Network

_log = logging.getLogger("fedkin")
_POLL = 0.05  # seconds between questions of a peer that waits
_LONELY = 1.0  # seconds to look for others before saying that there are none


@dataclass
class Tally:
    """What happened since the last record."""

    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    received: int = 0  # bytes


class PeerClient:
    """The other peers, as one of them sees them.

    Args:
        about, book: who asks, and whom it knows.
        network: how.
        parameters: P.
        deadline: seconds for an answer.
        lockstep: who keeps step; None where everybody has its own pace.
        seal: signs and checks, where peers have certificates.
    """

    def __init__(
        self,
        about: PeerSettings,
        book: PeerTable,
        network: Network,
        parameters: int,
        deadline: float | int = 5.0,
        lockstep: LockstepSettings | None = None,
        seal: MessageSigner | None = None,
    ) -> None:
        self.about, self.book, self.tally, self.stopped = about, book, Tally(), threading.Event()
        self._network, self._parameters, self._deadline = network, parameters, deadline
        self._lockstep, self._seal = lockstep, seal
        self._shelf = ResponseCache(partial(encode, federation=about.federation, seal=seal))
        self._serving = False

    def publish(self, message: Message) -> None:
        """From here on others can have it; from the first time on they know that this peer is there.

        Raises ConfigError where another peer has this one's name.
        """
        self._shelf.put(message)
        if not self._serving:
            self._network.serve(self._shelf.answer)
            self._serving = True
            self._look_around()
        self.book.meet(self._network.peers())

    def there(self) -> Bool[np.ndarray, "1 N"]:
        """Who can be asked; in lock-step nobody but those of the list."""
        there = self.book.there()
        return there & self.book.mask(self._lockstep.peers) if self._lockstep else there

    def ask(self, names: list[str], wants: tuple[str, ...], round: int) -> dict[str, Message]:
        """What came of asking these for arrays (in lock-step: of this round), checked; who is wrong, late or missing is
        counted and left out."""
        asked, found = round if self._lockstep else None, {}
        for name, replies in self._fetch(names, what(wants, asked)).items():
            question = Question(self.about.federation, name, wants, self._parameters, self.book.least(name), asked)
            try:
                found[name] = self._read(replies, question)
            except WireError as error:
                self.tally.failures[error.reason] += 1
                self.book.failed(name, error.reason, error.detail)
            else:
                self.book.heard(name, found[name].round)
        self.tally.asked += names
        self.tally.answered += found
        return found

    def finished(self, round: int) -> None:
        """Say that a round is over; in lock-step wait until all who are there say so."""
        self._shelf.finished(Message(self.about.name, round, 1))
        if self._lockstep and self._serving:
            self._wait(lambda: not self._behind(round))

    def given(self) -> int:
        """Bytes given to others since this was last asked."""
        return self._shelf.given()

    def leave(self) -> None:
        """Close the network."""
        self._network.close()

    # --- answers

    def _fetch(self, names: list[str], text: str) -> dict[str, tuple[bytes, ...]]:
        """All answers; in lock-step those that are not there yet are waited for."""
        if not names:
            return {}
        if self._lockstep is None:
            return self._network.fetch(names, text, self._deadline)
        found: dict[str, tuple[bytes, ...]] = dict.fromkeys(names, ())
        self._wait(lambda: self._complete(found, text))
        return found

    def _complete(self, found: dict[str, tuple[bytes, ...]], text: str) -> bool:
        """Ask those that have not answered once more; whether all have."""
        missing = [name for name, replies in found.items() if not replies]
        found |= self._network.fetch(missing, text, self._deadline)
        return all(found.values())

    def _read(self, replies: tuple[bytes, ...], question: Question) -> Message:
        """The one answer to a question. Raises WireError where there is none, or more than one, or it is wrong."""
        self.tally.received += sum(map(len, replies))
        if len(replies) != 1:
            raise WireError("contradiction" if replies else "silent")
        return decode(replies[0], question, self._seal)

    # --- waiting

    def _look_around(self) -> None:
        """Where nobody is there, say so once; the peer trains alone until somebody comes."""
        if self._lockstep:
            others = set(self._lockstep.peers) - {self.about.name}
            self._wait(lambda: others <= self._network.peers().keys())
            return
        end = time.monotonic() + _LONELY
        while not self._network.peers() and time.monotonic() < end and not self.stopped.wait(_POLL):
            pass
        if not self._network.peers():
            _log.warning("peer %s: no other peer can be reached; training alone, and trying on", self.about.name)

    def _behind(self, round: int) -> bool:
        """Whether somebody of the list is there and has not finished this round."""
        assert self._lockstep is not None
        names = [name for name in self._network.peers() if name in self._lockstep.peers]
        replies = self._network.fetch(names, what(STATUS), self._deadline)
        return any(self._finished_by(name, replies[name]) < round for name in names)

    def _finished_by(self, name: str, replies: tuple[bytes, ...]) -> int:
        """The round that a peer has finished, as it says; -1 where it says nothing that can be used."""
        try:
            return self._read(replies, Question(self.about.federation, name, STATUS, self._parameters)).round
        except WireError:
            return -1

    def _wait(self, done: Callable[[], bool]) -> None:
        """Until something is so, the deadline of the lock-step is over, or the peer is stopped."""
        assert self._lockstep is not None
        end = time.monotonic() + self._lockstep.deadline
        while not done() and time.monotonic() < end and not self.stopped.wait(_POLL):
            pass
