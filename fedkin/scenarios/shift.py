"""Data that move between rounds: what a shift is, who keeps its data, and training data that come in portions.

Incremental is of M. Duan et al.: Flexible Clustered Federated Learning for Client-Level Data Distribution Shift. IEEE
TPDS 2022, arXiv 2108.09749, section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.drift import Relabel, Rotate
from fedkin.scenarios.swaps import Moved, SwapAll, SwapPart
from fedkin.scenarios.validation import at_least, fraction, switch


@runtime_checkable
class Shift(Protocol):
    """How data move. Pure: the same arguments give the same answer."""

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> Moved:
        """The data of a round, made from the ``current`` ones of the round before (in round 0: the original), and
        whose data moved in it. ``original`` are the data as given, before any shift.

        Round 0 is before anything is trained, round 1 the first communication round. In round 0 data may be made
        ready, but nobody counts as moved.
        """
        ...


class Moving:
    """The data of a run, round by round."""

    def __init__(
        self, data: FederatedData, shift: Shift | None, reachable: Callable[[int], Int[np.ndarray, "c"]]
    ) -> None:
        """``reachable`` says who is there in a round."""
        self._data, self._shift, self._reachable = data, shift, reachable
        self._last: Stream | None = None  # of the newest step
        self._moved: Moved = (data, np.zeros(data.clients, bool))

    def at(self, stream: Stream) -> Moved:
        """The data of round ``stream.round``, and whose moved in exactly that round; a step in round r draws from
        ``stream.at(r)``. Goes on from the newest round asked for, or from the start where an earlier round (or
        another seed or purpose) is asked for: a resumed run comes to the same data."""
        if self._shift is None:
            return self._moved
        last = self._last
        if last is None or last.round > stream.round or last.at(0) != stream.at(0):
            self._moved, last = (self._data, self._moved[1]), None
        for round in range(0 if last is None else last.round + 1, stream.round + 1):
            here = self._reachable(round)
            self._moved = self._shift.step(self._data, self._moved[0], round, here, stream.at(round))
            self._last = stream.at(round)
        return self._moved


@dataclass(frozen=True)
class Incremental:
    """Training data come in portions; test data are there from the start.

    Release 0 is there in round 0, release j comes in round 1 + j ``every``. With release j a client has the first
    ceil(r_j n) of its n training samples, in a random order of its own. This holds for everybody, so a client that
    arrives late finds all that was released before.
    """

    every: int = 50  # rounds
    releases: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)  # r_j
    as_coded: bool = False  # the authors' code takes r_j of what the client *has*, so its data become fewer

    def __post_init__(self) -> None:
        at_least(1, "every", self.every)
        switch("as_coded", self.as_coded)
        for rate in self.releases:
            fraction("releases", rate)
        rates = (0, *self.releases)
        if len(rates) == 1 or any(late <= early for early, late in pairwise(rates)):
            raise ConfigError(f"releases must be fractions in (0, 1] that rise, like 0.25, 0.5; got {self.releases!r}")

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> Moved:
        whole = original.train
        sizes = self.released(whole.sizes, round)
        moved = sizes != current.train.sizes
        if not moved.any():
            return current, moved
        kept = _places(whole, stream.at(0)) < np.repeat(sizes, whole.sizes)
        train = Ragged(whole.rows[kept], np.concatenate([[0], np.cumsum(sizes)]))
        return current.with_rows(train, current.test), moved & (round > 0)

    def released(self, sizes: Int[np.ndarray, "N"], round: int) -> Int[np.ndarray, "N"]:
        """How many training samples clients of these ``sizes`` have in a round."""
        release = min(max(round - 1, 0) // self.every, len(self.releases) - 1)
        if not self.as_coded:
            return _portion(self.releases[release], sizes)
        for rate in self.releases[: release + 1]:
            sizes = _portion(rate, sizes)
        return sizes


def _places(part: Ragged, stream: Stream) -> Int[np.ndarray, "S"]:
    """The place 0, 1, ... of each entry in a random order of its client's entries."""
    owner = part.owners()
    order = np.lexsort((stream.child("order").rng().random(len(owner)), owner))
    places = np.empty(len(owner), np.int64)
    places[order] = np.arange(len(owner)) - part.offsets[owner]
    return places


def _portion(rate: float, sizes: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """ceil(rate x size), not fooled by 0.07 x 100 = 7.000000000000001."""
    return np.ceil(np.round(rate * sizes, 6)).astype(np.int64)


SHIFTS = {
    "swap_all": SwapAll,
    "swap_part": SwapPart,
    "incremental": Incremental,
    "relabel": Relabel,
    "rotate": Rotate,
}
