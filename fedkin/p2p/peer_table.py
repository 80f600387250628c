"""The peers that a peer knows: their numbers, whether they are reachable, and how requests to them
ended."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Bool

_log = logging.getLogger("fedkin")

# What a peer did, for each reason of a failure: text of the log line at the first such failure.
_REASONS = {
    "silent": "gave no reply in time",
    "contradiction": "gave two different replies to one request",
    "length": "sent a message that is too long or was cut",
    "version": "sent a message of another version of fedkin",
    "header": "sent a header that is too long, or something that is not a message",
    "archive": "sent an archive that cannot be decoded",
    "fields": "sent a header with missing or wrong entries",
    "federation": "replied for another federation",
    "labels": "has labels of another task type, loss or scale",
    "backbone": "has a backbone with other weights",
    "sender": "had another peer reply in its name",
    "signature": "sent a message without a valid signature",
    "certificate": "sent a certificate that does not belong to it",
    "arrays": "sent other arrays than requested",
    "dtype": "sent numbers that are not float32",
    "shape": "sent a model of another shape",
    "finite": "sent NaN or infinity",
    "stale": "sent an older round than before",
    "round": "sent another round than requested",
}


class PeerTable:
    """The names of all known peers. A peer's position in ``names`` is its number, which is also its
    column in a method's arrays.

    The names given at the start come first, then others in the order in which they come online.

    ``counts[name]`` holds a peer's exchanges (``"exchanges"``) and its failures by reason.
    """

    def __init__(self, name: str, names: Iterable[str] = ()) -> None:
        self.name = name
        self.names: list[str] = list(names)
        if name not in self.names:
            self.names.insert(0, name)
        self.counts: dict[str, Counter[str]] = {}
        self._reachable: set[str] = set()
        self._sessions: dict[str, str] = {}
        self._last_rounds: dict[str, int] = {}
        self._logged: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self.names)

    def update_sessions(self, sessions: Mapping[str, str]) -> None:
        """Set the reachable peers, each with the id of its session (connection to the network).

        A peer that returns in a new session has resumed from its disk, and may be some rounds
        behind the last round that it has sent. So older rounds are accepted from this peer again.
        """
        self.names += [name for name in sessions if name not in set(self.names)]
        for name, session in sessions.items():
            if self._sessions.get(name, session) != session:
                self._last_rounds.pop(name, None)
        self._sessions = {**self._sessions, **sessions}
        self._reachable = {name for name in sessions if name != self.name}

    def reachable(self) -> Bool[np.ndarray, "1 N"]:
        """Mask of the peers that can be queried. A peer does not query itself."""
        return self.mask(self._reachable)

    def names_of(self, mask: Bool[np.ndarray, "1 N"]) -> list[str]:
        """The names of the peers that a mask selects, in the order of the peers' numbers."""
        return [self.names[j] for j in np.flatnonzero(mask[0])]

    def mask(self, names: Iterable[str]) -> Bool[np.ndarray, "1 N"]:
        """A mask over all known peers that is True for these names."""
        selection = set(names)
        return np.array([[name in selection for name in self.names]])

    def last_round(self, name: str) -> int:
        """The latest round that a peer has sent; 0 if it has sent none."""
        return self._last_rounds.get(name, 0)

    def record_reply(self, name: str, round: int) -> None:
        """Count a peer's reply that was used, and remember its round."""
        self._last_rounds[name] = max(round, self.last_round(name))
        self.counts.setdefault(name, Counter())["exchanges"] += 1

    def record_failure(self, name: str, reason: str, detail: str = "") -> None:
        """Count a peer's reply that is missing or cannot be used. The failure is logged once per
        peer and reason.

        Args:
            name: name of the peer.
            reason: one word, under which the failure is counted.
            detail: text in brackets in the log.
        """
        self.counts.setdefault(name, Counter())[reason] += 1
        words = _REASONS.get(reason, reason)
        if detail:
            words = f"{words} ({detail})"
        self._log_once(name, reason, f"peer {name} {words}; the reply is left out")

    def record_own_failure(self, reason: str, line: str) -> None:
        """Count a failure of this peer itself. The failure is logged once per reason."""
        self.counts.setdefault(self.name, Counter())[reason] += 1
        self._log_once(self.name, reason, f"peer {self.name}: {line}")

    def _log_once(self, name: str, reason: str, line: str) -> None:
        """Log a line about a peer, unless a line with the same reason was logged before."""
        if (name, reason) not in self._logged:
            self._logged.add((name, reason))
            _log.warning("%s", line)
