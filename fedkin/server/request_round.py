"""One exchange with some nodes: letters out, answers in, until all have answered or time is up.

The engine is known by three verbs (``Transport``), so that most tests put one in memory in its place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedkin.config.server_settings import ServerSettings
from fedkin.server.message import RpcMessage

_log = logging.getLogger("fedkin")
_POLL = 0.25  # seconds between looks into the letter box
_FAIR = 0.1  # of a round's time: who had less to answer in is no suspect


@dataclass(frozen=True)
class OnlineNode:
    """A node that is online: the name and the key that it is registered under (empty where it is not), and until when
    the engine takes its last sign of life to hold."""

    node: int
    name: str = ""
    key: str = ""
    alive_until: float = 0.0


@dataclass(frozen=True)
class Sent:
    """A letter under way: its number at the engine (None where it was not taken), and its bytes."""

    letter: str | None
    size: int


@dataclass(frozen=True)
class Answer:
    """What came for a letter: a parcel, or what went wrong, and whether that was on the way (``lost``)."""

    letter: str
    message: RpcMessage | None
    size: int = 0
    error: str = ""
    lost: bool = False

    @property
    def useful(self) -> bool:
        """Whether its node has done what it was asked."""
        return self.message is not None and "failed" not in self.message.header


@runtime_checkable
class Transport(Protocol):
    """An engine that carries letters."""

    def nodes(self) -> Sequence[OnlineNode]:
        """Who is online."""
        ...

    def push(self, letters: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float) -> Sequence[Sent]:
        """Send to each of these nodes; after so many seconds nobody wants an answer any more."""
        ...

    def pull(self, letters: Iterable[str]) -> Sequence[Answer]:
        """What has come for these letters until now."""
        ...


class RequestRound:
    """Sends letters and waits for answers as long as the terms allow.

    ``suspects`` are nodes that let a deadline pass, with the sign of life that they had shown by then: nobody waits for
    them again before they have shown a later one.
    """

    def __init__(
        self,
        post: Transport,
        terms: ServerSettings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.post, self.terms = post, terms
        self.clock, self.sleep = clock, sleep
        self.suspects: dict[int, float] = {}
        self.sent = self.received = 0  # bytes of the last exchange
        self.late = 0  # bytes of answers that came when nobody waited for them any more
        self._ends = clock() + terms.deadline
        self._given_up: set[str] = set()  # letters whose answers are no longer waited for

    def begin(self) -> list[OnlineNode]:
        """A round begins: who is there, without those that are only believed to be."""
        self._ends = self.clock() + self.terms.deadline
        if self._given_up:  # an answer that is never fetched stays with the engine
            came = self.post.pull(self._given_up)
            self._given_up -= {answer.letter for answer in came}
            self.late += sum(answer.size for answer in came)
        return self.there()

    def there(self) -> list[OnlineNode]:
        """Nodes that are online, and are no suspects."""
        seats = list(self.post.nodes())
        back = {s.node for s in seats if s.alive_until > self.suspects.get(s.node, -1)}
        self.suspects = {node: since for node, since in self.suspects.items() if node not in back}
        return [seat for seat in seats if seat.node not in self.suspects]

    def ask(self, letters: Mapping[int, RpcMessage], round: int) -> dict[int, Answer]:
        """Answers by node; one that gave none in time is left out, and is a suspect from now on."""
        self.sent = self.received = 0
        began = self.clock()
        ends = began + (self._ends - began) * 2 / 3
        if ends <= began and letters:
            _log.warning("round %d: its time is up before %d nodes could be asked", round, len(letters))
        if ends <= began:
            return {}
        tries, answers = dict.fromkeys(letters, 0), {}
        waiting = self._push(letters, list(letters), round, ends - began)
        while waiting and self.clock() < ends:
            for answer in self._pull(waiting):
                node = waiting.pop(answer.letter)
                if answer.lost and tries[node] < self.terms.retries and self._online(node):
                    tries[node] += 1
                    waiting |= self._push(letters, [node], round, max(1.0, ends - self.clock()))
                    continue
                answers[node] = answer
                if sum(one.useful for one in answers.values()) >= self.terms.quorum * len(letters):
                    ends = min(ends, began + 2 * (self.clock() - began))
            if waiting:
                self.sleep(_POLL)
        self._given_up |= set(waiting)
        if waiting and ends - began >= _FAIR * self.terms.deadline:  # else nobody could have answered
            seen = {seat.node: seat.alive_until for seat in self.post.nodes()}
            self.suspects |= {node: seen.get(node, 0.0) for node in waiting.values()}
        return answers

    def _push(self, letters: Mapping[int, RpcMessage], nodes: list[int], round: int, lifetime: float) -> dict[str, int]:
        sent = self.post.push([(node, letters[node]) for node in nodes], round, lifetime)
        taken = [(one, node) for one, node in zip(sent, nodes, strict=True) if one.letter is not None]
        for node in set(nodes) - {node for _, node in taken}:
            _log.warning("round %d: the engine did not take a letter for node %d", round, node)
        self.sent += sum(one.size for one, _ in taken)
        return {str(one.letter): node for one, node in taken}

    def _pull(self, waiting: Mapping[str, int]) -> Sequence[Answer]:
        came = self.post.pull(waiting)
        self.received += sum(answer.size for answer in came)
        return came

    def _online(self, node: int) -> bool:
        return any(seat.node == node for seat in self.post.nodes())
