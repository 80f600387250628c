"""Peers that others reach and this one does not: to reach them, its connections must be made
again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedkin.core.names import is_name

# Seconds for which others may still name a peer that has left, or not yet see a peer that has come.
PATIENCE = 6.0
LONGEST_WAIT = 600.0  # seconds
TEXT_LIMIT = 32_768  # bytes of names; a message has room for twice that, without its numbers
_MOST = 1000  # names that are remembered: anyone may send any
# A peer is forgotten after so many checks in which it was not named. A time alone is not enough, as
# rounds may take a moment or many minutes.
_CHECKS = 3


@dataclass
class _Mentions:
    first: float
    last: float
    silent: int = 0  # checks since then


class MissingPeers:
    """Peers that others name, and that are not online here.

    A peer is *missing* where it is named for longer than a wait: ``PATIENCE`` seconds at first.
    Each time that peers are missing doubles the wait, up to ``LONGEST_WAIT``, until no peer is
    named for twice its length. So slow connections, and a firewall between two peers, seldom
    disturb other peers. A stranger who invents names disturbs them about twice a minute at most: in
    6 s of naming and 24 s of silence.

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
        """Note peers that others name and that are not online here. May be called on any thread."""
        now = self._clock()
        with self._lock:
            for name in names:
                if name in self._mentions:
                    self._mentions[name] = _Mentions(self._mentions[name].first, now)
                elif len(self._mentions) < _MOST and is_name(name) and name != self._name:
                    self._mentions[name] = _Mentions(now, now)

    def remove(self, name: str) -> None:
        """Forget a peer that is online now. May be called on any thread."""
        with self._lock:
            self._mentions.pop(name, None)

    def check(self) -> list[str]:
        """The peers that are missing. Where there are some, all waits begin again, as the
        connections are made again."""
        now = self._clock()
        with self._lock:
            for name, mentions in list(self._mentions.items()):
                mentions.silent += 1
                if mentions.silent > _CHECKS and now - mentions.last > self._patience:
                    del self._mentions[name]
            missing = sorted(
                name
                for name, mentions in self._mentions.items()
                if mentions.last - mentions.first > self._wait
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
    """Names on a line each, in random order: where not all fit, others come the next time."""
    order = list(names)
    random.shuffle(order)
    content = "\n".join(order).encode()
    if len(content) <= TEXT_LIMIT:
        return content
    return content[:TEXT_LIMIT].rpartition(b"\n")[0]


def names_of_bytes(content: bytes) -> list[str]:
    """The lines of a content; none where it is longer than the limit. They need not be names: any
    peer may have sent them."""
    if len(content) > TEXT_LIMIT:
        return []
    return content.decode(errors="replace").split("\n")
