"""Data shifts between rounds: the protocol of a shift, the data of each round, and incremental
training data.

Incremental training data are from M. Duan et al.: Flexible Clustered Federated Learning for
Client-Level Data Distribution Shift. IEEE TPDS 2022, arXiv 2108.09749, section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.swaps import ShiftedRound
from fedkin.scenarios.validation import at_least, fraction, switch


@runtime_checkable
class Shift(Protocol):
    """A change of clients' data between rounds. ``step`` is a pure function: equal arguments give
    equal results."""

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> ShiftedRound:
        """The data of a round, and whether each client's data shifted in it.

        Args:
            original: the data before any shift.
            current: the data of the previous round; in round 0, the original data.
            round: 0 before any training, 1 for the first communication round. Data may be prepared
                in round 0, but then no client counts as shifted.
            reachable: clients that take part in the round.
            stream: random numbers of the round.
        """
        ...


class ShiftedData:
    """The data of a run in each of its rounds.

    Args:
        data: the data before any shift.
        shift: the shift; None for data that do not change.
        reachable: returns the clients that take part in a round.
    """

    def __init__(
        self,
        data: FederatedData,
        shift: Shift | None,
        reachable: Callable[[int], Int[np.ndarray, "c"]],
    ) -> None:
        self._data = data
        self._shift = shift
        self._reachable = reachable
        # The stream of the latest step.
        self._last: Stream | None = None
        self._current: ShiftedRound = (data, np.zeros(data.clients, bool))

    def at(self, stream: Stream) -> ShiftedRound:
        """The data of round ``stream.round``, and whether each client's data shifted in it.

        The data of a round are computed from the data of the round before, and the shift's step of
        round r draws from ``stream.at(r)``. The latest data are kept. If ``stream`` has an earlier
        round, or another seed or purpose, the steps are repeated from round 0. A resumed run
        therefore has the same data.
        """
        if self._shift is None:
            return self._current
        last = self._last
        # The kept data are of a later round, or of another seed or purpose: start again from round
        # 0.
        if last is None or last.round > stream.round or last.at(0) != stream.at(0):
            self._current = (self._data, self._current[1])
            last = None
        first = 0 if last is None else last.round + 1
        for round in range(first, stream.round + 1):
            current, _ = self._current
            self._current = self._shift.step(
                original=self._data,
                current=current,
                round=round,
                reachable=self._reachable(round),
                stream=stream.at(round),
            )
            self._last = stream.at(round)
        return self._current


@plain_options
@dataclass(frozen=True)
class Incremental:
    """Training data are released in portions: clients have more and more of their samples. Test
    (and validation) data do not change.

    Release 0 is in round 0, release j in round 1 + j ``every``. With release j a client has the
    first ceil(r_j n) of its n training samples, in a random order. A client that arrives late has
    all samples that were released before.

    ``as_coded`` follows the authors' code, in which data shrink instead of grow. In round 0, when
    methods form their first clusters (the cold start), clients have all their data. Release 0 cuts
    the data in round 1. Each release takes its portion of a client's *current* samples, so their
    number falls. No client detects a shift, so none migrates: the authors' code tests only clients
    whose data were swapped. Without ``as_coded``, clients compare with their label counts when they
    were placed.

    The order of a client's samples is drawn from ``Stream(seed, 0, "scenario").child("order")``.

    Attributes:
        every: number of rounds from one release to the next.
        releases: r_j, the share of a client's training samples that is released with release j, in
            ascending order.
        as_coded: whether to follow the authors' code.

    Examples:
        >>> import fedkin as fk
        >>> fk.Incremental(every=10, releases=(0.5, 1.0))
        Incremental(every=10, releases=(0.5, 1.0), as_coded=False)
    """

    every: int = 50
    releases: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    as_coded: bool = False

    def __post_init__(self) -> None:
        at_least(1, "every", self.every)
        switch("as_coded", self.as_coded)
        for rate in self.releases:
            fraction("releases", rate)
        rates = (0, *self.releases)
        if len(rates) == 1 or any(late <= early for early, late in pairwise(rates)):
            raise ConfigError(
                "releases must be rising fractions in (0, 1], such as 0.25, 0.5; got "
                f"{self.releases!r}"
            )

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> ShiftedRound:
        """The data of a round: of each client, as many training samples as have been released."""
        all_samples = original.train
        sizes = self.released(all_samples.sizes, round)
        shifted = sizes != current.train.sizes
        if not shifted.any():
            return current, shifted
        # Round 0 gives the same order in every round, so earlier releases stay part of later ones.
        released = _positions(all_samples, stream.at(0)) < np.repeat(sizes, all_samples.sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        train = Ragged(all_samples.rows[released], offsets)
        return current.with_rows(train, current.test), shifted & (round > 0)

    def released(self, sizes: Int[np.ndarray, "N"], round: int) -> Int[np.ndarray, "N"]:
        """The number of training samples that clients have in a round, from their total numbers of
        samples."""
        release = min(max(round - 1, 0) // self.every, len(self.releases) - 1)
        if not self.as_coded:
            return _portion(self.releases[release], sizes)
        if not round:
            return sizes
        for rate in self.releases[: release + 1]:
            sizes = _portion(rate, sizes)
        return sizes


def clients_detect(shift: Shift | None) -> bool:
    """Whether clients look for shifts of their data. In FlexCFL's code they do so after a swap, and
    not when data arrive (``Incremental(as_coded=True)``)."""
    return not (isinstance(shift, Incremental) and shift.as_coded)


def _positions(part: Ragged, stream: Stream) -> Int[np.ndarray, "S"]:
    """Put the training samples of each client in a random order, and return the position 0, 1, ...
    of every sample in its client's order."""
    owner = part.owners()
    order = np.lexsort((stream.child("order").rng().random(len(owner)), owner))
    positions = np.empty(len(owner), np.int64)
    positions[order] = np.arange(len(owner)) - part.offsets[owner]
    return positions


def _portion(rate: float, sizes: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """The number of samples in a share of a client's samples, ceil(rate x size). The product is
    rounded first, since 0.07 x 100 is 7.000000000000001 and would become 8."""
    return np.ceil(np.round(rate * sizes, 6)).astype(np.int64)
