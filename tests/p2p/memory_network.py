"""A network in memory: peers of one process that question each other directly, and a test that may come between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from fedkin.core.errors import ConfigError
from fedkin.p2p.zenoh_transport import Answer


class Switchboard:
    """Where all lines end. ``twist[name]`` changes what ``name``'s questions bring: it gets the question and the
    answer (None where there is none) and gives the answers that arrive."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answers: dict[str, Answer] = {}
        self.sessions: dict[str, str] = {}
        self.twist: dict[str, Callable[[str, bytes | None], tuple[bytes, ...]]] = {}
        self.asked: list[tuple[str, str, str]] = []  # who, whom, what
        self.made = 0

    def line(self, name: str) -> Line:
        return Line(self, name)

    def add(self, name: str, answer: Answer | None = None) -> None:
        """Somebody who is there without being a Peer."""
        self.line(name).serve(answer or (lambda text: None))


class Line:
    """One peer's end (``federation.network.Network``)."""

    def __init__(self, board: Switchboard, name: str) -> None:
        self._board, self._name = board, name
        with board.lock:
            board.made += 1
            self._session = f"{board.made:04d}"

    def peers(self) -> dict[str, str]:
        with self._board.lock:
            if self._board.sessions.get(self._name, self._session) != self._session:
                raise ConfigError(f"peer.name: another peer is called {self._name!r}")
            return {name: session for name, session in self._board.sessions.items() if name != self._name}

    def fetch(self, names: Sequence[str], what: str, deadline: float) -> dict[str, tuple[bytes, ...]]:
        found = {}
        for name in names:
            self._board.asked.append((self._name, name, what))
            answer = self._board.answers.get(name)
            reply = answer(what) if answer else None
            plain = () if reply is None else (reply,)
            twist = self._board.twist.get(name)
            found[name] = twist(what, reply) if twist else plain
        return found

    def serve(self, answer: Answer) -> None:
        self.peers()
        with self._board.lock:
            self._board.answers[self._name] = answer
            self._board.sessions[self._name] = self._session

    def close(self) -> None:
        with self._board.lock:
            self._board.answers.pop(self._name, None)
            self._board.sessions.pop(self._name, None)
