"""Detects peers that are online for other peers but not for this peer, so that this peer must
reconnect to the network."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedkin.core.identifiers import is_name

# Seconds during which others may still name a peer that has left, or not yet see a new one.
PATIENCE = 6.0
LONGEST_WAIT = 600.0  # longest waiting time in seconds
TEXT_LIMIT = 32_768  # largest size in bytes of a list of names; a message has room for two of them
_MOST = 1000  # largest number of stored names, because any sender may invent names
# A peer is forgotten after this number of checks in which it was not named. A time limit would not
# do, because rounds may take from a moment to many minutes.
_CHECKS = 3


@dataclass
class _Mentions:
    """The times at which other peers named one peer as online, although this peer does not see that
    peer online."""

    first: float  # time of the first such mention
    last: float  # time of the latest one
    silent: int = 0  # number of checks since the peer was last named


class MissingPeers:
    """Tracks peers that other peers name as online, but that are not online for this peer.

    A peer counts as *missing* if others have named it for longer than a waiting time. The waiting
    time is ``patience`` seconds at first. Each time peers are missing, this peer reconnects, and
    the waiting time doubles, up to ``LONGEST_WAIT``. When no peer has been named for twice the
    waiting time, the waiting time is ``patience`` again. So slow connections, or a firewall between
    two peers, rarely make this peer reconnect. A malicious peer that invents names can make this
    peer reconnect at most about twice a minute: the malicious peer must name them for 6 s and then
    be silent for 24 s.

    Args:
        name: name of this peer, which is never missing.
        patience: the first waiting time in seconds.
        clock: function that returns the time in seconds.
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
        """Record that other peers name these peers, which are not online here. Thread-safe."""
        now = self._clock()
        with self._lock:
            for name in names:
                if name in self._mentions:
                    self._mentions[name] = _Mentions(self._mentions[name].first, now)
                elif len(self._mentions) < _MOST and is_name(name) and name != self._name:
                    self._mentions[name] = _Mentions(now, now)

    def remove(self, name: str) -> None:
        """Forget a peer that is online now. Thread-safe."""
        with self._lock:
            self._mentions.pop(name, None)

    def check(self) -> list[str]:
        """The names of the missing peers. If there are any, the caller must reconnect. All recorded
        names are then forgotten, and the waiting time doubles."""
        now = self._clock()
        with self._lock:
            for name, mentions in list(self._mentions.items()):
                # ``add`` sets this back to 0. A peer that others stopped naming has left.
                mentions.silent += 1
                if mentions.silent > _CHECKS and now - mentions.last > self._patience:
                    del self._mentions[name]
            missing = sorted(
                name
                for name, mentions in self._mentions.items()
                if mentions.last - mentions.first > self._wait
            )
            # The waiting time is short again only after a time in which no peer was named at all.
            if self._mentions:
                self._calm_since = now
            elif now - self._calm_since > 2 * self._wait:
                self._wait = self._patience
            if missing:
                self._wait = min(2 * self._wait, max(self._patience, LONGEST_WAIT))
                self._mentions.clear()
        return missing


def names_to_bytes(names: Iterable[str]) -> bytes:
    """Names of peers as text, one per line, for a message to another peer. Names beyond
    ``TEXT_LIMIT`` bytes are left out.

    The order is random, so that a different subset is sent each time if not all fit.
    """
    order = list(names)
    random.shuffle(order)
    content = "\n".join(order).encode()
    if len(content) <= TEXT_LIMIT:
        return content
    return content[:TEXT_LIMIT].rpartition(b"\n")[0]


def names_of_bytes(content: bytes) -> list[str]:
    """The names of peers in a received text, one per line; an empty list if the text is longer than
    ``TEXT_LIMIT`` bytes.

    The result may hold invalid names, since any peer may have sent any text.
    """
    if len(content) > TEXT_LIMIT:
        return []
    return content.decode(errors="replace").split("\n")
