"""Clients that exchange their data: all of them, or one label each.

M. Duan et al.: Flexible Clustered Federated Learning for Client-Level Data Distribution Shift. IEEE TPDS 2022,
arXiv 2108.09749, section 5.3. The union of all clients' data stays the same; row numbers move, never a sample.

Differs from the authors' code: it swaps *warm* clients only, those that the method at work has placed. Here all clients
that are there take part, so that methods run side by side see the same world.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.validation import fraction, switch

Moved = tuple[FederatedData, Bool[np.ndarray, "N"]]  # the data of a round, and whose data moved in it


@dataclass(frozen=True)
class SwapAll:
    """Two clients exchange all they have, training and test data, and with them their true clusters."""

    probability: float = 0.05  # of a pair, per round; all clients that are there are paired at random

    def __post_init__(self) -> None:
        fraction("probability", self.probability)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> Moved:
        return swapped_all(current, _pairs(self.probability, round, reachable, stream))


@dataclass(frozen=True)
class SwapPart:
    """Two clients exchange one label each: all their samples with it, in training and test data.

    A label qualifies where a client has it in both, and the other one has not. Where no label qualifies on one of the
    sides, the pair is left as it is. The true cluster of a client is the one that most of its training samples come
    from (of a sample with several owners: from the last of them); where two are equal, what it was.
    """

    probability: float = 0.05  # of a pair, per round
    as_coded: bool = False  # the authors' code drops the rest of the round's pairs after one that is left as it is

    def __post_init__(self) -> None:
        fraction("probability", self.probability)
        switch("as_coded", self.as_coded)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> Moved:
        pairs = _pairs(self.probability, round, reachable, stream)
        labels, possible = drawn_labels(current, pairs, stream)
        if self.as_coded:
            possible = np.logical_and.accumulate(possible)
        return swapped_part(original, current, pairs[possible], labels[possible])


def swapped_all(current: FederatedData, pairs: Int[np.ndarray, "k two"]) -> Moved:
    """The data after each pair of clients has exchanged all it has; no client is in two pairs."""
    source = np.arange(current.clients)
    source[pairs] = pairs[:, ::-1]
    moved = source != np.arange(current.clients)
    if not moved.any():
        return current, moved
    true_clusters = None if current.true_clusters is None else current.true_clusters[source]
    return current.with_rows(current.train.select(source), current.test.select(source), true_clusters), moved


def swapped_part(
    original: FederatedData,
    current: FederatedData,
    pairs: Int[np.ndarray, "k two"],
    labels: Int[np.ndarray, "k two"],
) -> Moved:
    """The data after each pair of clients has exchanged its samples of two labels: the first client gives those with
    the pair's first label, the second those with the second. No client is in two pairs."""
    partner, given = np.arange(current.clients), np.full(current.clients, -1)
    partner[pairs], given[pairs] = pairs[:, ::-1], labels
    moved = partner != np.arange(current.clients)
    if not moved.any():
        return current, moved
    train, test = (_handed_over(part, current.y, partner, given) for part in (current.train, current.test))
    return current.with_rows(train, test, _majority(original, current, train, np.flatnonzero(moved))), moved


def drawn_labels(
    current: FederatedData, pairs: Int[np.ndarray, "k two"], stream: Stream
) -> tuple[Int[np.ndarray, "k two"], Bool[np.ndarray, "k"]]:
    """A label that each of the two may give, drawn at random, and in which pairs both have one to give."""
    both = pairs.ravel()
    train, test = current.train.select(both), current.test.select(both)
    has = (_label_counts(train, current) > 0) & (_label_counts(test, current) > 0)
    has = has.reshape(-1, 2, current.classes)
    gives = has & ~has[:, ::-1]
    lots = stream.child("labels").rng().random(gives.shape)
    return np.where(gives, lots, -1.0).argmax(axis=2), gives.sum(axis=2).min(axis=1) > 0


def _label_counts(part: Ragged, data: FederatedData) -> Int[np.ndarray, "n C"]:
    flat = part.owners() * data.classes + data.y[part.rows].astype(np.int64)
    return np.bincount(flat, minlength=len(part) * data.classes).reshape(-1, data.classes)


def _pairs(probability: float, round: int, reachable: Int[np.ndarray, "c"], stream: Stream) -> Int[np.ndarray, "k two"]:
    """Who swaps with whom: everybody is in at most one pair. Nobody swaps before the first communication round."""
    rng = stream.child("pairs").rng()
    order = rng.permutation(reachable)
    drawn = np.flatnonzero((rng.random(len(order) // 2) < probability) & (round > 0))
    return np.stack([order[drawn], order[-1 - drawn]], axis=1)


def _handed_over(
    part: Ragged, y: Int[np.ndarray, "M"], partner: Int[np.ndarray, "N"], given: Int[np.ndarray, "N"]
) -> Ragged:
    """Every sample whose label its owner gives goes to the partner."""
    owner = part.owners()
    owner = np.where(y[part.rows] == given[owner], partner[owner], owner)
    sizes = np.bincount(owner, minlength=len(part))
    return Ragged(part.rows[np.argsort(owner, kind="stable")], np.concatenate([[0], np.cumsum(sizes)]))


def _majority(
    original: FederatedData, current: FederatedData, train: Ragged, moved: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "N"] | None:
    """True clusters after the swap: where most of a moved client's training samples were at home."""
    if original.true_clusters is None or current.true_clusters is None:
        return None
    clusters = int(original.true_clusters.max()) + 1
    home = np.zeros(len(original.y), np.int64)
    home[original.train.rows] = original.true_clusters[original.train.owners()]
    own = train.select(moved)
    votes = np.bincount(own.owners() * clusters + home[own.rows], minlength=len(moved) * clusters)
    votes = votes.reshape(-1, clusters)
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    true_clusters = current.true_clusters.copy()
    true_clusters[moved[clear]] = votes.argmax(axis=1)[clear]
    return true_clusters
