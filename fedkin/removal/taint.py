"""Which models hold something of a client, and from which round on. Shapes: K clusters, T rounds.

A client taints the model of a cluster when its update enters the model. If a run says which models
were copied (when clusters split or merge, or a new cluster starts from another one's model), a copy
of a tainted model is tainted too.

The plan of a replay has no copies: methods that copy models declare their separation as
``unknown``, so that everything runs again. The copies, ``copies_between_all`` and
``rounds_to_replay`` serve the tests, which compare them with vectors worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

NEVER = -1  # a cluster that no client to be removed has tainted


@dataclass(frozen=True)
class RoundTraces:
    """What happened in a round that can spread a client's contribution.

    Attributes:
        round: the round's number; 0 for the steps before the first round.
        trained_in: clusters whose models the clients to be removed trained in this round.
        copies: models that were copied after the training of this round, in this order: from which
            cluster, and to which.
    """

    round: int
    trained_in: tuple[int, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()


def first_tainted_rounds(traces: Iterable[RoundTraces], clusters: int) -> Int[np.ndarray, "K"]:
    """The first round after which each cluster's model holds something of the clients; NEVER for a
    cluster that stays without it.

    Args:
        traces: the rounds in ascending order. Rounds without any trace may be left out.
        clusters: K, the largest number of clusters in the run.
    """
    first = np.full(clusters, NEVER)
    for trace in traces:
        for cluster in trace.trained_in:
            _taint(first, cluster, trace.round)
        for source, target in trace.copies:
            if first[source] != NEVER:
                _taint(first, target, trace.round)
    return first


def rounds_to_replay(first: Int[np.ndarray, "K"], rounds: int) -> Int[np.ndarray, "K"]:
    """The number of rounds of each cluster that must run again: from its first tainted round to the
    last round; 0 for a cluster that is not tainted.

    Args:
        first: first tainted round of each cluster, or NEVER.
        rounds: T, the number of rounds of the run.
    """
    # Round 0 is the start, which is repeated too but is no round of training.
    begins = np.maximum(first, 1)
    return np.where(first == NEVER, 0, rounds - begins + 1)


def copies_between_all(clusters: int) -> tuple[tuple[int, int], ...]:
    """Copies from every cluster to every other one, for a round in which the number of clusters
    changed and the run's records do not say which model was copied."""
    pairs = [(source, target) for source in range(clusters) for target in range(clusters)]
    return tuple(pair for pair in pairs if pair[0] != pair[1])


def replay_starts(
    first: Int[np.ndarray, "K"], kept: Sequence[int], rounds: int
) -> Int[np.ndarray, "K"]:
    """The round after which each cluster must be trained again: the last round before its first
    tainted one whose model is stored. It is ``rounds`` for a cluster that is not tainted.

    Args:
        first: first tainted round of each cluster, or NEVER.
        kept: rounds whose models are stored. The models of round 0 can always be computed.
        rounds: T, the number of rounds of the run.
    """
    known = np.array(sorted({0, *kept}))
    before = np.searchsorted(known, np.maximum(first, 1)) - 1
    return np.where(first == NEVER, rounds, known[before])


def _taint(first: Int[np.ndarray, "K"], cluster: int, round: int) -> None:
    """Note in ``first`` that a cluster is tainted from this round on, unless it was before."""
    if first[cluster] == NEVER:
        first[cluster] = round
