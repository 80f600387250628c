"""The book of a peer: whom it knows, who is there, and what came of asking them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Bool

_log = logging.getLogger("fedkin")

# What a reason means, for the line that is logged when a peer first gives it.
_WORDS = {
    "silent": "gave no answer in time",
    "contradiction": "gave two different answers to one question",
    "length": "sent more or fewer bytes than announced",
    "header": "sent a header that is too long, or none of ours",
    "json": "sent a header that is not JSON",
    "fields": "sent a header with missing or wrong entries",
    "federation": "answered for another federation",
    "sender": "was answered for by somebody else",
    "signature": "sent something that it did not sign",
    "certificate": "showed a certificate that is not its own",
    "arrays": "sent other arrays than it was asked for",
    "dtype": "sent other numbers than float32",
    "shape": "sent a model of another shape",
    "finite": "sent NaN or infinity",
    "stale": "sent a round older than one it had shown",
    "round": "sent another round than it was asked for",
}


class PeerTable:
    """Names and their numbers (the columns of a method's arrays), in the order given or, after that, of appearance.

    ``counts[name]`` has a peer's exchanges (``"exchanges"``) and its failures by reason.
    """

    def __init__(self, name: str, names: Iterable[str] = ()) -> None:
        self.name = name
        self.names: list[str] = list(names)
        if name not in self.names:
            self.names.insert(0, name)
        self.alive: set[str] = set()
        self.counts: dict[str, Counter[str]] = {}
        self._sessions: dict[str, str] = {}
        self._shown: dict[str, int] = {}
        self._told: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def own(self) -> int:
        """This peer's own number."""
        return self.names.index(self.name)

    def meet(self, sessions: Mapping[str, str]) -> None:
        """Who is there now, with the session of each. One that comes back in a new session may begin where its disk
        has it, a little earlier than what it had shown."""
        self.names += [name for name in sessions if name not in set(self.names)]
        for name, session in sessions.items():
            if self._sessions.get(name, session) != session:
                self._shown.pop(name, None)
        self._sessions = {**self._sessions, **sessions}
        self.alive = {name for name in sessions if name != self.name}

    def there(self) -> Bool[np.ndarray, "1 N"]:
        """Who can be asked; nobody asks itself."""
        return np.array([[name in self.alive for name in self.names]])

    def named(self, mask: Bool[np.ndarray, "1 N"]) -> list[str]:
        """The names under a mask, by number."""
        return [self.names[j] for j in np.flatnonzero(mask[0])]

    def mask(self, names: Iterable[str]) -> Bool[np.ndarray, "1 N"]:
        """The mask over names."""
        wanted = set(names)
        return np.array([[name in wanted for name in self.names]])

    def least(self, name: str) -> int:
        """The newest round that a peer has shown; 0 where it has shown none."""
        return self._shown.get(name, 0)

    def heard(self, name: str, round: int) -> None:
        """An answer that is used."""
        self._shown[name] = max(round, self.least(name))
        self.counts.setdefault(name, Counter())["exchanges"] += 1

    def failed(self, name: str, reason: str, detail: str = "") -> None:
        """An answer that is not used, or did not come; logged once per peer and reason."""
        self.counts.setdefault(name, Counter())[reason] += 1
        words = _WORDS.get(reason, reason)
        self._once(name, reason, f"peer {name} {words}{f' ({detail})' if detail else ''}; left out")

    def own_failure(self, reason: str, line: str) -> None:
        """Something of this peer's own that failed; counted and logged alike."""
        self.counts.setdefault(self.name, Counter())[reason] += 1
        self._once(self.name, reason, f"peer {self.name}: {line}")

    def _once(self, name: str, reason: str, line: str) -> None:
        """Log a line, if it is the first of this peer and reason."""
        if (name, reason) not in self._told:
            self._told.add((name, reason))
            _log.warning("%s", line)
