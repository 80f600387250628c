"""A network in memory: peers of one process that send requests to each other, and tests that may
tamper with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from fedkin.core.errors import ConfigError
from fedkin.p2p.transport import RequestHandler


class MemoryNetwork:
    """The network of several transports. ``tamper[name]`` changes the replies of ``name``: it gets
    the request and the reply (None where there is none), and returns the replies that arrive."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.handlers: dict[str, RequestHandler] = {}
        self.sessions: dict[str, str] = {}
        self.tamper: dict[str, Callable[[str, bytes | None], tuple[bytes, ...]]] = {}
        self.requests: list[tuple[str, str, str]] = []  # from, to, text
        self.transports = 0

    def transport(self, name: str) -> MemoryTransport:
        return MemoryTransport(self, name)

    def add_peer(self, name: str, handler: RequestHandler | None = None) -> None:
        """Bring a peer online that is no ``Peer``."""
        self.transport(name).serve(handler or (lambda text: None))


class MemoryTransport:
    """One peer's end (a ``Transport``)."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self._network = network
        self._name = name
        with network.lock:
            network.transports += 1
            self._session = f"{network.transports:04d}"

    def peers(self) -> dict[str, str]:
        with self._network.lock:
            if self._network.sessions.get(self._name, self._session) != self._session:
                raise ConfigError(f"peer.name: another peer is called {self._name!r}")
            return {
                name: session
                for name, session in self._network.sessions.items()
                if name != self._name
            }

    def request(
        self, names: Sequence[str], text: str, timeout: float
    ) -> dict[str, tuple[bytes, ...]]:
        replies = {}
        for name in names:
            self._network.requests.append((self._name, name, text))
            handler = self._network.handlers.get(name)
            reply = handler(text) if handler else None
            tamper = self._network.tamper.get(name)
            replies[name] = tamper(text, reply) if tamper else () if reply is None else (reply,)
        return replies

    def serve(self, handler: RequestHandler) -> None:
        self.peers()
        with self._network.lock:
            self._network.handlers[self._name] = handler
            self._network.sessions[self._name] = self._session

    def close(self) -> None:
        with self._network.lock:
            self._network.handlers.pop(self._name, None)
            self._network.sessions.pop(self._name, None)
