"""Peers that others reach and this one does not: to be found, its connections have to be made anew."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedkin.core.names import is_name

PATIENCE = 6.0  # seconds: for so long, who has left is still named by others, and who has come is not yet seen by all
LONGEST_WAIT = 600.0  # seconds
TEXT_LIMIT = 32_768  # bytes of names; a message has twice that besides its numbers
_MOST = 1000  # names that are remembered: anyone may send any
_CHECKS = 3  # without a word of a peer, after which it is forgotten: rounds may take a moment or many minutes


@dataclass
class _Mentions:
    first: float
    last: float
    silent: int = 0  # checks since then


class MissingPeers:
    """What others say of peers that are not online here.

    A peer is *missing* where it is named for longer than a wait: ``PATIENCE`` seconds at first.
    Each time that peers are missing doubles it, up to ``LONGEST_WAIT``, until nobody is named for
    twice its length. So connections that are slow to come back and a firewall between two peers
    seldom disturb the others, and a stranger who invents names does so about twice a minute at
    most: in 6 s of naming and 24 s of silence.

    Args:
        name: this peer's, which is never missing.
        patience: the first wait.
        clock: seconds now.
    """

    def __init__(
        self, name: str, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._mentions: dict[str, _Mentions] = {}
        self._wait = patience
        self._calm_since = clock()

    def add(self, names: Iterable[str]) -> None:
        """Others name these, and they are not online here. May be called on any thread."""
        now = self._clock()
        with self._lock:
            for name in names:
                if name in self._mentions:
                    self._mentions[name] = _Mentions(self._mentions[name].first, now)
                elif len(self._mentions) < _MOST and is_name(name) and name != self._name:
                    self._mentions[name] = _Mentions(now, now)

    def remove(self, name: str) -> None:
        """It is online now. May be called on any thread."""
        with self._lock:
            self._mentions.pop(name, None)

    def check(self) -> list[str]:
        """The peers that are missing. All waits begin again where there are some: the connections
        are made anew."""
        now = self._clock()
        with self._lock:
            for name, mentions in list(self._mentions.items()):
                mentions.silent += 1
                if mentions.silent > _CHECKS and now - mentions.last > self._patience:
                    del self._mentions[name]
            missing = sorted(
                name for name, each in self._mentions.items() if each.last - each.first > self._wait
            )
            if self._mentions:
                self._calm_since = now
            elif now - self._calm_since > 2 * self._wait:
                self._wait = self._patience
            if missing:
                self._wait = min(2 * self._wait, max(self._patience, LONGEST_WAIT))
                self._mentions.clear()
        return missing


def names_to_bytes(names: Iterable[str]) -> bytes:
    """Names on a line each, in random order: of more than fit, others come the next time."""
    order = list(names)
    random.shuffle(order)
    content = "\n".join(order).encode()
    return content if len(content) <= TEXT_LIMIT else content[:TEXT_LIMIT].rpartition(b"\n")[0]


def names_of_bytes(content: bytes) -> list[str]:
    """The lines; none where they are longer than the limit. They need not be names: anyone may have
    sent them."""
    return content.decode(errors="replace").split("\n") if len(content) <= TEXT_LIMIT else []
