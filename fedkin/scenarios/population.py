"""Client participation: late arrival, departure, dropout from a round, and straggling.

The functions only draw who arrives, leaves or fails; a world (the simulator) applies the result.
Draws are separate for each client and round, so a client's fate does not depend on who else is
asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeGuard

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.scenarios.validation import fraction


@plain_options
@dataclass(frozen=True)
class Population:
    """Which clients take part in a round, and which fail.

    Fractions are probabilities for each client, drawn independently. (FedProx's code draws an exact
    share of each cohort.)

    Attributes:
        dropout: probability that a client does not reply in a round.
        mute: probability that a client never replies.
        stragglers: probability that a client completes only some of its epochs in a round.
        arrivals: number of clients that arrive, by round. Arriving clients have the highest ids, in
            the order of arrival; all other clients take part from the start.
        departures: number of clients that leave for good, by round. The clients with the lowest
            remaining ids leave.
        silent: ids of clients that never reply to anything and are in no score, although they are
            drawn into cohorts as all others. This is the run that ``fk.forget`` repeats. None: no
            client.

    Examples:
        >>> import fedkin as fk
        >>> population = fk.Population(dropout=0.1, arrivals={5: 20})
        >>> population.dropout, population.arrivals
        (0.1, {5: 20})
    """

    dropout: float = 0.0
    mute: float = 0.0
    stragglers: float = 0.0
    arrivals: dict[int, int] = field(default_factory=dict)
    departures: dict[int, int] = field(default_factory=dict)
    silent: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("dropout", "mute", "stragglers"):
            fraction(name, getattr(self, name))
        for name in ("arrivals", "departures"):
            for round, count in getattr(self, name).items():
                if not _is_count(round) or not _is_count(count):
                    raise ConfigError(
                        f"{name} must map rounds to numbers of clients, both integers of at least "
                        f"1, such as {{5: 20}}; got {round!r}: {count!r}"
                    )
        if self.silent is not None:
            object.__setattr__(self, "silent", _silent(self.silent))

    def check_silent(self, total: int) -> None:
        """Raise ConfigError if silent clients are not among ``total`` clients, or if no other
        client is left."""
        unknown = [client for client in self.silent or () if client >= total]
        if unknown:
            raise ConfigError(f"silent: {unknown[0]} is not a client; ids are 0 to {total - 1}")
        if len(self.silent or ()) >= total:
            raise ConfigError("silent names every client; at least one must reply")

    def departed(self, round: int) -> Int[np.ndarray, "g"]:
        """Ids of the clients that have left for good by this round."""
        return np.arange(sum(count for when, count in self.departures.items() if when <= round))

    def reachable(self, total: int, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients among ``total`` that have arrived by a round and have not left.

        Raises:
            ConfigError: no client remains.
        """
        # Late clients have the highest ids, departed clients the lowest.
        late = sum(count for when, count in self.arrivals.items() if when > round)
        departed = len(self.departed(round))
        if late >= total:
            raise ConfigError(
                f"arrivals leave no client in round {round}: {late} of {total} come later"
            )
        if departed >= total - late:
            raise ConfigError(
                f"departures leave no client in round {round}: {departed} have left, {late} of "
                f"{total} come later"
            )
        return _ids(departed, int(total - late))

    def dropped_out(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Bool[np.ndarray, "n"]:
        """Whether each client drops out of this round."""
        return self._draw(clients, stream.child("dropout")) < self.dropout

    def never_responding(
        self, clients: Int[np.ndarray, "n"], stream: Stream
    ) -> Bool[np.ndarray, "n"]:
        """Whether each client never replies: the same clients in every round."""
        return self._draw(clients, stream.at(0).child("mute")) < self.mute

    def straggling(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Bool[np.ndarray, "n"]:
        """Whether each client straggles in this round."""
        return self._draw(clients, stream.child("stragglers")) < self.stragglers

    def partial_steps(
        self, clients: Int[np.ndarray, "n"], num_steps: Int[np.ndarray, "n"], stream: Stream
    ) -> Int[np.ndarray, "n"]:
        """Number of epochs (or steps) that each client completes if it straggles: uniform in [1, E)
        if it should do E, as in FedProx's code."""
        u = self._draw(clients, stream.child("managed"))
        completed = 1 + np.floor(u * (num_steps - 1)).astype(np.int64)
        return np.maximum(1, completed).astype(np.int64)

    @staticmethod
    def _draw(clients: Int[np.ndarray, "n"], stream: Stream) -> np.ndarray:
        """Draw a uniform random number for each client. The number does not depend on the other
        clients in ``clients``."""
        purpose = "population/" + stream.purpose.rsplit("/", 1)[-1]
        draws = Stream(stream.seed, stream.round, purpose)
        return np.array([draws.client(int(c)).random() for c in clients])


def _silent(ids: object) -> tuple[int, ...] | None:
    """Ids of silent clients, ascending; None if there are none. Raises ConfigError for other
    values."""
    if not isinstance(ids, (list, tuple)) or not all(_is_id(each) for each in ids):
        raise ConfigError(
            f"silent must be a list of client ids from 0 up, such as [3]; got {ids!r}"
        )
    return tuple(sorted({int(each) for each in ids})) or None


def _is_id(value: object) -> bool:
    """Whether a value is an integer of at least 0."""
    return _is_integer(value) and int(value) >= 0


def _is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1."""
    return _is_integer(value) and int(value) > 0


def _is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or of NumPy."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@lru_cache(maxsize=2)
def _ids(first: int, end: int) -> Int[np.ndarray, "c"]:
    """The client ids first .. end - 1. The array is read-only, since all steps of a round share
    it."""
    ids = np.arange(first, end)
    ids.flags.writeable = False
    return ids
