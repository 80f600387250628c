"""Who takes part: clients that arrive late, leave early, drop out of a round, or run out of time in it.

Pure decisions, drawn per client and round; a world asks for them and acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.scenarios.validation import fraction


@dataclass(frozen=True)
class Population:
    """Fractions are probabilities, per client and round (FedProx's code draws an exact share of each cohort; a client
    that decides for itself knows nothing of the others). ``arrivals`` maps a round to how many clients (the next ids
    up to the highest) appear in it; all others are there from the start. ``departures`` maps a round to how many (the
    lowest ids still there) leave in it, for good."""

    dropout: float = 0.0  # answers nothing in a round
    mute: float = 0.0  # never answers anybody
    stragglers: float = 0.0  # manages only a part of its epochs
    arrivals: dict[int, int] = field(default_factory=dict)
    departures: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("dropout", "mute", "stragglers"):
            fraction(name, getattr(self, name))
        for name in ("arrivals", "departures"):
            for round, count in getattr(self, name).items():
                if not all(
                    isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1 for n in (round, count)
                ):
                    raise ConfigError(f"{name} must name rounds and counts from 1 up, got {round!r}: {count!r}")

    def reachable(self, total: int, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients, of ``total`` in all, that have arrived by a round and not left by it.

        Raises ConfigError where none is there.
        """
        late = sum(count for when, count in self.arrivals.items() if when > round)
        gone = sum(count for when, count in self.departures.items() if when <= round)
        if late >= total:
            raise ConfigError(f"arrivals leave no client at round {round}: {late} of {total} come later")
        if gone >= total - late:
            raise ConfigError(
                f"departures leave no client at round {round}: {gone} have left, {late} of {total} come later"
            )
        return np.arange(gone, total - late)

    def silent(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Bool[np.ndarray, "n"]:
        """Who drops out of this round."""
        return self._draw(clients, stream.child("dropout")) < self.dropout

    def unheard(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Bool[np.ndarray, "n"]:
        """Who never answers: the same clients in every round."""
        return self._draw(clients, stream.at(0).child("mute")) < self.mute

    def slow(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Bool[np.ndarray, "n"]:
        """Who straggles in this round."""
        return self._draw(clients, stream.child("stragglers")) < self.stragglers

    def managed(
        self, clients: Int[np.ndarray, "n"], amount: Int[np.ndarray, "n"], stream: Stream
    ) -> Int[np.ndarray, "n"]:
        """Epochs (or steps) that stragglers manage of E: uniform in [1, E), as in FedProx's code."""
        u = self._draw(clients, stream.child("managed"))
        return np.maximum(1, 1 + np.floor(u * (amount - 1)).astype(np.int64)).astype(np.int64)

    @staticmethod
    def _draw(clients: Int[np.ndarray, "n"], stream: Stream) -> np.ndarray:
        """One uniform number per client, the same whoever else is asked."""
        fresh = Stream(stream.seed, stream.round, "population/" + stream.purpose.rsplit("/", 1)[-1])
        return np.array([fresh.client(int(c)).random() for c in clients])
