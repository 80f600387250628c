"""Shifts in which pairs of clients swap their data: all of them, or one label each.

M. Duan et al.: Flexible Clustered Federated Learning for Client-Level Data Distribution Shift. IEEE
TPDS 2022, arXiv 2108.09749, section 5.3. The union of all clients' data stays the same; only row
numbers change owners.

Differs from the authors' code: it swaps *warm* clients only, those that the method has assigned to
a cluster. Here all reachable clients take part, so that compared methods have the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.validation import fraction, switch

ShiftedRound = tuple[
    FederatedData, Bool[np.ndarray, "N"]
]  # the data of a round, and which clients' data shifted in it


@plain_options
@dataclass(frozen=True)
class SwapAll:
    """Two clients swap all their data (training, validation and test), and with them their true
    clusters.

    Pairs, and which of them swap, are drawn from ``Stream(seed, round,
    "scenario").child("pairs")``.

    Attributes:
        probability: that a pair swaps, per round from 1 on. In every round all reachable clients
            are paired at random anew, so it is also the probability that a client's data change in
            a round.
    """

    probability: float = 0.05

    def __post_init__(self) -> None:
        fraction("probability", self.probability)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> ShiftedRound:
        return swap_all(current, _pairs(self.probability, round, reachable, stream))


@plain_options
@dataclass(frozen=True)
class SwapPart:
    """Two clients swap one label each: all their samples with it, in training and test data (and
    for validation).

    A label qualifies where a client has it in training and test data, and the other client has not.
    Where no label qualifies for one of them, the pair does not swap. The true cluster of a client
    is the one that most of its training samples come from (of a sample with several owners: from
    the last of them); where two are equal, it does not change.

    Pairs are drawn as those of ``SwapAll``, labels from ``Stream(seed, round,
    "scenario").child("labels")``.

    Attributes:
        probability: that a pair is drawn to swap, per round from 1 on; all reachable clients are
            paired at random.
        as_coded: as the authors' code, drop the rest of the round's pairs after one in which no
            label qualifies.
    """

    probability: float = 0.05
    as_coded: bool = False

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
    ) -> ShiftedRound:
        pairs = _pairs(self.probability, round, reachable, stream)
        labels, possible = draw_labels(current, pairs, stream)
        if self.as_coded:
            possible = np.logical_and.accumulate(possible)
        return swap_labels(original, current, pairs[possible], labels[possible])


def swap_all(current: FederatedData, pairs: Int[np.ndarray, "k two"]) -> ShiftedRound:
    """The data after each pair of clients has swapped all its data; no client is in two pairs."""
    source = np.arange(current.clients)
    source[pairs] = pairs[:, ::-1]
    shifted = source != np.arange(current.clients)
    if not shifted.any():
        return current, shifted
    true_clusters = None if current.true_clusters is None else current.true_clusters[source]
    parts: dict[str, Any] = {split: current.part(split).select(source) for split in current.splits}
    return current.with_rows(**parts, true_clusters=true_clusters), shifted


def swap_labels(
    original: FederatedData,
    current: FederatedData,
    pairs: Int[np.ndarray, "k two"],
    labels: Int[np.ndarray, "k two"],
) -> ShiftedRound:
    """The data after each pair of clients has swapped its samples of two labels.

    Args:
        original: the data before any shift.
        current: the data of the round before.
        pairs: pairs of clients; no client is in two.
        labels: the label that each of them gives.
    """
    partner = np.arange(current.clients)
    exchanged = np.full(current.clients, -1)
    partner[pairs] = pairs[:, ::-1]
    exchanged[pairs] = labels
    shifted = partner != np.arange(current.clients)
    if not shifted.any():
        return current, shifted
    parts: dict[str, Any] = {
        split: _give_labels(current.part(split), current.y, partner, exchanged)
        for split in current.splits
    }
    clusters = _majority_clusters(original, current, parts["train"], np.flatnonzero(shifted))
    return current.with_rows(**parts, true_clusters=clusters), shifted


def draw_labels(
    current: FederatedData, pairs: Int[np.ndarray, "k two"], stream: Stream
) -> tuple[Int[np.ndarray, "k two"], Bool[np.ndarray, "k"]]:
    """A label that each client of a pair may give, drawn at random, and the pairs in which both
    have one.

    Args:
        current: the data.
        pairs: pairs of clients.
        stream: draws the labels.
    """
    both = pairs.ravel()
    train = current.train.select(both)
    test = current.test.select(both)
    has = (_label_counts(train, current) > 0) & (_label_counts(test, current) > 0)
    has = has.reshape(-1, 2, current.classes)
    gives = has & ~has[:, ::-1]
    draws = stream.child("labels").rng().random(gives.shape)
    return np.where(gives, draws, -1.0).argmax(axis=2), gives.sum(axis=2).min(axis=1) > 0


def _label_counts(part: Ragged, data: FederatedData) -> Int[np.ndarray, "n C"]:
    flat = part.owners() * data.classes + data.y[part.rows].astype(np.int64)
    return np.bincount(flat, minlength=len(part) * data.classes).reshape(-1, data.classes)


def _pairs(
    probability: float, round: int, reachable: Int[np.ndarray, "c"], stream: Stream
) -> Int[np.ndarray, "k two"]:
    """The pairs that swap, each client in at most one; none before the first communication round."""
    rng = stream.child("pairs").rng()
    order = rng.permutation(reachable)
    swapping = np.flatnonzero((rng.random(len(order) // 2) < probability) & (round > 0))
    return np.stack([order[swapping], order[-1 - swapping]], axis=1)


def _give_labels(
    part: Ragged,
    y: Int[np.ndarray, "M"],
    partner: Int[np.ndarray, "N"],
    labels: Int[np.ndarray, "N"],
) -> Ragged:
    """The index after every sample whose label its owner gives has gone to the partner."""
    owner = part.owners()
    owner = np.where(y[part.rows] == labels[owner], partner[owner], owner)
    sizes = np.bincount(owner, minlength=len(part))
    return Ragged(
        part.rows[np.argsort(owner, kind="stable")], np.concatenate([[0], np.cumsum(sizes)])
    )


def _majority_clusters(
    original: FederatedData, current: FederatedData, train: Ragged, shifted: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "N"] | None:
    """True clusters after the swap: the original cluster of most of a client's training samples."""
    if original.true_clusters is None or current.true_clusters is None:
        return None
    clusters = int(original.true_clusters.max()) + 1
    home = np.zeros(len(original.y), np.int64)
    home[original.train.rows] = original.true_clusters[original.train.owners()]
    own = train.select(shifted)
    votes = np.bincount(own.owners() * clusters + home[own.rows], minlength=len(shifted) * clusters)
    votes = votes.reshape(-1, clusters)
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    true_clusters = current.true_clusters.copy()
    true_clusters[shifted[clear]] = votes.argmax(axis=1)[clear]
    return true_clusters
