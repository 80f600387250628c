"""An engine in memory (``federation.exchange.Transport``) with a clock of its own: nodes that answer at once, late or never,
crash, raise, send garbage, come, go and come back with another number.

It behaves as Flower was found to: a node shows that it lives every 30 s and counts as online for 60 s after that; one
that was killed stays in the list until then; answers stay in the box until somebody fetches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkin.config.server_settings import ServerSettings
from fedkin.core.errors import FedkinError
from fedkin.server.message import RpcMessage, header_of, pack, unpack
from fedkin.server.node import Node
from fedkin.server.request_round import Answer, OnlineNode, RequestRound, Sent

BEAT, HOLDS = 30.0, 60.0  # seconds between signs of life, and how long one holds
Handler = Callable[[RpcMessage], RpcMessage]


class Clock:
    """Seconds that pass when somebody sleeps; ``at`` plans what happens meanwhile."""

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

    def at(self, when: float, what: Callable[[], Any]) -> None:
        self._plans.append((when, what))


@dataclass
class Station:
    """A node as the engine knows it, and how it behaves."""

    answers: Handler
    name: str = ""  # that it is registered under
    key: str = ""
    delay: float = 0.0  # seconds until its answer is there
    twist: Callable[[RpcMessage, RpcMessage], RpcMessage] = lambda letter, reply: reply  # changes what it says
    loses: int = 0  # so many of its next letters are lost, and the engine says so
    crashes: bool = False  # its process dies of every letter, and the engine says so
    deaf: bool = False  # the engine takes no letter for it
    since: float = 0.0
    killed: float | None = None  # when it was killed, which the engine learns from its silence
    letters: list[RpcMessage] = field(default_factory=list)  # all that it got

    def alive_until(self, now: float) -> float:
        last = now if self.killed is None else self.killed
        return self.since + (last - self.since) // BEAT * BEAT + HOLDS


@dataclass
class _Due:
    """An answer that is under way, or in the box."""

    when: float
    node: int
    answer: Answer


class MemoryPost:
    """The engine. ``pushed`` has every letter: round, node, verb, and bytes."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.stations: dict[int, Station] = {}
        self.pushed: list[tuple[int, int, str, int]] = []
        self.exchanges: list[tuple[int, str]] = []  # round and verb of every call of push
        self.received: list[tuple[str, int]] = []  # verb and bytes of every answer that was fetched
        self._under_way: dict[str, _Due] = {}
        self._verbs: dict[str, str] = {}

    # --- what a test does

    def join(self, node: int, answers: Node | Handler, **how: Any) -> Station:
        """A node comes online."""
        handler = answers.answer if isinstance(answers, Node) else answers
        self.stations[node] = Station(handler, since=self.clock.now, **how)
        return self.stations[node]

    def leave(self, node: int) -> Station:
        """A node says goodbye: letters to it come back at once."""
        for letter, due in self._under_way.items():
            if due.node == node and due.when > self.clock.now:
                due.when, due.answer = self.clock.now, _gone(letter)
        return self.stations.pop(node)

    def kill(self, node: int) -> None:
        """A node dies, and nobody is told: its letters come back when the engine has found it out."""
        station, now = self.stations[node], self.clock.now
        station.killed = now
        for letter, due in self._under_way.items():
            if due.node == node and due.when > now:
                due.when, due.answer = station.alive_until(now), _gone(letter)

    def verbs(self, round: int | None = None) -> list[str]:
        """The exchanges of a round, greetings apart."""
        return [verb for when, verb in self.exchanges if verb != "hello" and round in (None, when)]

    @property
    def box(self) -> list[str]:
        """Letters whose answers lie here and were not fetched."""
        return [letter for letter, due in self._under_way.items() if due.when <= self.clock.now]

    # --- the engine

    def nodes(self) -> Sequence[OnlineNode]:
        now = self.clock.now
        seats = [OnlineNode(node, s.name, s.key, s.alive_until(now)) for node, s in self.stations.items()]
        return [seat for seat in seats if seat.alive_until > now]

    def push(self, letters: Sequence[tuple[int, RpcMessage]], round: int, lifetime: float) -> Sequence[Sent]:
        if letters:
            self.exchanges.append((round, str(letters[0][1].header["verb"])))
        return [self._push(node, letter, round) for node, letter in letters]

    def pull(self, letters: Iterable[str]) -> Sequence[Answer]:
        there = set(letters)
        came = sorted((d.when, n) for n, d in self._under_way.items() if n in there and d.when <= self.clock.now)
        answers = [self._under_way.pop(number).answer for _, number in came]
        self.received += [(self._verbs[answer.letter], answer.size) for answer in answers]
        return answers

    def _push(self, node: int, letter: RpcMessage, round: int) -> Sent:
        read, size = carried(letter)
        station, verb = self.stations.get(node), str(letter.header["verb"])
        if station is None or station.deaf:
            return Sent(None, size)
        number = f"letter-{len(self._verbs)}"
        self._verbs[number] = verb
        self.pushed.append((round, node, verb, size))
        now = self.clock.now
        if station.killed is None:
            answer = self._answer(station, number, read)
            self._under_way[number] = _Due(now if answer.lost else now + station.delay, node, answer)
        else:
            self._under_way[number] = _Due(station.alive_until(now), node, _gone(number))
        return Sent(number, size)

    def _answer(self, station: Station, number: str, letter: RpcMessage) -> Answer:
        if station.loses or station.crashes:
            station.loses -= not station.crashes
            return Answer(number, None, error="the message was lost", lost=True)
        station.letters.append(letter)
        try:
            reply = station.twist(letter, station.answers(letter))
        except FedkinError as error:  # as a ClientApp of fedkin says it
            reply = RpcMessage({"failed": " ".join(str(error).split())})
        except Exception as error:  # as Flower says it
            return Answer(number, None, error=f"error 2: {type(error).__name__}: {error}")
        return Answer(number, *carried(reply))


def _gone(letter: str) -> Answer:
    return Answer(letter, None, error="the node is gone", lost=True)


def carried(message: RpcMessage) -> tuple[RpcMessage, int]:
    """A parcel after its way over a network, and its bytes."""
    text = message.text()
    floats = {name: array.copy() for name, array in message.arrays.items() if array.dtype.kind == "f"}
    packed = {name: pack(array) for name, array in message.arrays.items() if array.dtype.kind != "f"}
    size = len(text) + sum(array.nbytes for array in floats.values()) + sum(map(len, packed.values()))
    return RpcMessage(header_of(text), floats | {name: unpack(data) for name, data in packed.items()}), size


def exchange(post: MemoryPost, **terms: Any) -> RequestRound:
    """An exchange on the engine's own clock."""
    return RequestRound(post, ServerSettings(**terms), post.clock.time, post.clock.sleep)
