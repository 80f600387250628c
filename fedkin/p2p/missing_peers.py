"""Peers that others reach and this one does not: to be found, its connections have to be made anew."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fedkin.core.names import is_name

PATIENCE = 6.0  # seconds: for so long, who has left is still named by others, and who has come is not yet seen by all
TEXT_LIMIT = 32_768  # bytes of names; a message has twice that besides its numbers
_ROUNDS = 3  # checks without a word of a peer after which it is not missing any more


@dataclass
class _Absence:
    since: float
    last: float  # when it was named last
    silent: int = 0  # checks since then


class MissingPeers:
    """What others say of peers that are not online here.

    A peer is named where it sends a request itself, or where another says that it is online. It is *missing* where it
    is named for ``PATIENCE`` seconds and not online here; each attempt in vain doubles them, so that two peers with a
    firewall between them seldom disturb the others.

    Args:
        name: this peer's, which is never missing.
        clock: seconds now.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._lock = threading.Lock()
        self._named: set[str] = set()  # since the last check
        self._absences: dict[str, _Absence] = {}
        self._attempts: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        """Others have named these. May be called on any thread."""
        with self._lock:
            self._named.update(name for name in names if is_name(name) and name != self._name)

    def check(self, online: Collection[str]) -> list[str]:
        """The peers that are missing, once a round; for those that are named here, the wait begins again.

        Args:
            online: the names of the peers that are online here.
        """
        now = self._clock()
        with self._lock:
            named, self._named = self._named.difference(online), set()
        for name in online:
            self._absences.pop(name, None)
            self._attempts.pop(name, None)
        for name in named:
            absence = self._absences.setdefault(name, _Absence(now, now))
            absence.last, absence.silent = now, -1
        for name, absence in list(self._absences.items()):
            absence.silent += 1
            if absence.silent >= _ROUNDS and now - absence.last > PATIENCE:  # rounds may be long or short
                del self._absences[name]
        missing = [name for name in sorted(named) if now - self._absences[name].since > self._patience(name)]
        if missing:
            self._attempts.update(missing)
            self._absences.clear()
        return missing

    def _patience(self, name: str) -> float:
        return PATIENCE * 2.0 ** self._attempts[name]


def names_to_bytes(names: Iterable[str]) -> bytes:
    """Names on a line each, in random order: of more than fit, others come the next time."""
    order = list(names)
    random.shuffle(order)
    content = "\n".join(order).encode()
    return content if len(content) <= TEXT_LIMIT else content[:TEXT_LIMIT].rpartition(b"\n")[0]


def names_of_bytes(content: bytes) -> list[str]:
    """The lines; none where they are longer than the limit. They need not be names: anyone may have sent them."""
    return content.decode(errors="replace").split("\n") if len(content) <= TEXT_LIMIT else []
