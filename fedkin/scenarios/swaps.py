"""Shifts in which pairs of clients swap all their data, or the samples of one label each.

M. Duan et al.: Flexible Clustered Federated Learning for Client-Level Data Distribution Shift. IEEE
TPDS 2022, arXiv 2108.09749, section 5.3. The union of all clients' data stays the same; samples
only change owners.

The authors' code swaps only *warm* clients, which the method has assigned to a cluster. Here all
reachable clients take part, so that compared methods have the same data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.validation import fraction, refuse_other_labels, switch

# The result of a shift's step: the data of a round, and whether each client's data shifted in it.
ShiftedRound = tuple[FederatedData, Bool[np.ndarray, "N"]]


@plain_options
@dataclass(frozen=True)
class SwapAll:
    """Two clients swap all their data (training, validation and test), and their true clusters.

    ``Stream(seed, round, "scenario").child("pairs")`` draws the pairs, and which of them swap.

    Attributes:
        probability: probability that a pair swaps in a round, from round 1 on. Every round pairs
            all reachable clients at random, so this is also the probability that a client's data
            change.

    Examples:
        >>> import fedkin as fk
        >>> fk.SwapAll(probability=0.1)
        SwapAll(probability=0.1)
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
        """The data of a round, as in ``Shift.step``: drawn pairs of clients have swapped all data.
        Raises ConfigError for survival data, whose patients would stay where they were."""
        if current.patients is not None:
            raise ConfigError(
                f"{current.name}: the shift swap_all would swap the risk sets of clients, but not "
                "the patients of whom they are made; leave out the shift"
            )
        return swap_all(current, _pairs(self.probability, round, reachable, stream))


@plain_options
@dataclass(frozen=True)
class SwapPart:
    """Two clients swap all their training, test and validation samples of one label each.

    A client gives away a label that it has in its training and test data, and that the other client
    does not have. A pair swaps only if both clients have such a label. A client's true cluster is
    the cluster in which most of its training samples were before any shift. (If a sample had
    several owners, the owner with the highest id counts.) If two clusters have equally many of
    these samples, the client's true cluster does not change.

    Pairs are drawn as in ``SwapAll``, labels from ``Stream(seed, round,
    "scenario").child("labels")``.

    Attributes:
        probability: probability that a pair is drawn to swap in a round, from round 1 on. Every
            round pairs all reachable clients at random.
        as_coded: whether to follow the authors' code: after the first pair that cannot swap, no
            later pair of the round swaps.

    Examples:
        >>> import fedkin as fk
        >>> fk.SwapPart(probability=0.1)
        SwapPart(probability=0.1, as_coded=False)
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
        """The data of a round, as in ``Shift.step``: drawn pairs have swapped the samples of two
        labels. Raises ConfigError unless labels are classes."""
        refuse_other_labels(current, "the shift swap_part")
        pairs = _pairs(self.probability, round, reachable, stream)
        labels, possible = draw_labels(current, pairs, stream)
        if self.as_coded:
            # The authors' loop ends at the first pair without a label that qualifies.
            possible = np.logical_and.accumulate(possible)
        return swap_labels(original, current, pairs[possible], labels[possible])


def swap_all(current: FederatedData, pairs: Int[np.ndarray, "k two"]) -> ShiftedRound:
    """The data after each pair of clients has swapped all its data. No client is in two pairs."""
    # From which client each client gets its data: from itself, unless it is in a pair.
    source = np.arange(current.clients)
    source[pairs] = pairs[:, ::-1]
    shifted = source != np.arange(current.clients)
    if not shifted.any():
        return current, shifted
    validation = None if current.validation is None else current.validation.select(source)
    true_clusters = None if current.true_clusters is None else current.true_clusters[source]
    data = current.with_rows(
        train=current.train.select(source),
        test=current.test.select(source),
        validation=validation,
        true_clusters=true_clusters,
    )
    return data, shifted


def swap_labels(
    original: FederatedData,
    current: FederatedData,
    pairs: Int[np.ndarray, "k two"],
    labels: Int[np.ndarray, "k two"],
) -> ShiftedRound:
    """The data after each pair of clients has swapped its samples of two labels.

    Args:
        original: the data before any shift.
        current: the data of the previous round.
        pairs: pairs of clients; no client is in two pairs.
        labels: label that each of these clients gives away.
    """
    partner = np.arange(current.clients)
    # -1 for clients that give no label away.
    exchanged = np.full(current.clients, -1)
    partner[pairs] = pairs[:, ::-1]
    exchanged[pairs] = labels
    shifted = partner != np.arange(current.clients)
    if not shifted.any():
        return current, shifted
    train = _give_labels(current.train, current.y, partner, exchanged)
    test = _give_labels(current.test, current.y, partner, exchanged)
    validation = None
    if current.validation is not None:
        validation = _give_labels(current.validation, current.y, partner, exchanged)
    clusters = _majority_clusters(original, current, train, np.flatnonzero(shifted))
    data = current.with_rows(train, test, validation=validation, true_clusters=clusters)
    return data, shifted


def draw_labels(
    current: FederatedData, pairs: Int[np.ndarray, "k two"], stream: Stream
) -> tuple[Int[np.ndarray, "k two"], Bool[np.ndarray, "k"]]:
    """The label that each client of a pair gives away, drawn at random.

    Args:
        current: data of the previous round.
        pairs: pairs of clients.
        stream: draws the labels.

    Returns:
        The labels, and for which pairs both clients have a label to give away.
    """
    both = pairs.ravel()
    train = current.train.select(both)
    test = current.test.select(both)
    has = (current.class_counts(train) > 0) & (current.class_counts(test) > 0)
    has = has.reshape(-1, 2, current.classes)
    # Labels that a client of the pair has and the other one does not.
    gives = has & ~has[:, ::-1]
    draws = stream.child("labels").rng().random(gives.shape)
    labels = np.where(gives, draws, -1.0).argmax(axis=2)
    possible = gives.sum(axis=2).min(axis=1) > 0
    return labels, possible


def _pairs(
    probability: float, round: int, reachable: Int[np.ndarray, "c"], stream: Stream
) -> Int[np.ndarray, "k two"]:
    """Draw the pairs of clients that swap data in a round. No client is in two pairs, and no pair
    swaps in round 0."""
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
    """The rows (samples) of each client after it has given all its samples of one label
    (``labels``) to its partner."""
    owner = part.owners()
    owner = np.where(y[part.rows] == labels[owner], partner[owner], owner)
    rows = part.rows[np.argsort(owner, kind="stable")]
    sizes = np.bincount(owner, minlength=len(part))
    return Ragged(rows, np.concatenate([[0], np.cumsum(sizes)]))


def _majority_clusters(
    original: FederatedData, current: FederatedData, train: Ragged, shifted: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "N"] | None:
    """True clusters after a swap. A client that swapped gets the cluster that most of its training
    samples came from originally; with a tie, it keeps its cluster."""
    if original.true_clusters is None or current.true_clusters is None:
        return None
    clusters = int(original.true_clusters.max()) + 1
    home = np.zeros(len(original.y), np.int64)
    # The cluster of the client that owned each sample before any shift.
    home[original.train.rows] = original.true_clusters[original.train.owners()]

    # Number of samples that each shifted client has from each cluster.
    part = train.select(shifted)
    cells = part.owners() * clusters + home[part.rows]
    votes = np.bincount(cells, minlength=len(shifted) * clusters).reshape(-1, clusters)
    clear = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    true_clusters = current.true_clusters.copy()
    true_clusters[shifted[clear]] = votes.argmax(axis=1)[clear]
    return true_clusters
