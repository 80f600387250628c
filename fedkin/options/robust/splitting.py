"""Splitting of clusters: clients that a robust rule has excluded several times in succession get a
separate cluster. Sleepers are attackers that are honest while clusters are found; once they attack,
they end up in clusters without honest clients.

This step is our own. Shapes: N clients, K clusters, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED

# Names of two arrays [N] in the state: each client's number of consecutive exclusions, and the
# cluster that it has left, counted from 1; 0 if it has not left any.
SPLIT = ("times_left_out", "left_cluster")
# An update with a weight below this counts as excluded; a weight of 1 is the same as in a mean.
SUSPECT = 0.5


class Clusters(NamedTuple):
    """The clusters' models, the cluster of each client, and the cluster that each client has left
    (counted from 1; 0 if it has not left any)."""

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]
    left_cluster: Int[np.ndarray, "N"]


def times_left_out(
    before: Int[np.ndarray, "N"], weight: Float[np.ndarray, "N"], judged: Bool[np.ndarray, "N"]
) -> Int[np.ndarray, "N"]:
    """Number of consecutive exclusions of each client's updates by a robust rule; an included
    update resets it to 0.

    Args:
        before: the numbers before the round.
        weight: the rule's weight of each client's update in this round.
        judged: which clients have sent an update in this round. Updates that are only remembered
            are not judged again.
    """
    after = np.where(weight < SUSPECT, before + 1, 0)
    return np.where(judged, after, before)


def split(clusters: Clusters, due: Bool[np.ndarray, "N"], most: Callable[[int], int]) -> Clusters:
    """The clusters after clients that were excluded often enough have left their cluster.

    All clients that leave one cluster together go to one new cluster, with a copy of its model.

    A client that has left once does not leave again. No client leaves if a cluster would then have
    lost more clients, in all rounds together, than may be Byzantine. In that case the rule may have
    excluded honest clients, and would exclude more as fewer remain.

    Args:
        clusters: clusters before the split.
        due: clients that have been excluded often enough.
        most: function from a cluster's number of clients to the largest number of them that may be
            Byzantine.
    """
    models = clusters.models
    assignment = clusters.assignment.copy()
    left = clusters.left_cluster.copy()
    for k in np.unique(assignment[due & (assignment != UNASSIGNED)]):
        gone = clusters.left_cluster == k + 1  # clients that left cluster k in earlier rounds
        members = clusters.assignment == k
        group = members & due & (clusters.left_cluster == 0)
        if group.any() and (group | gone).sum() <= most(int((members | gone).sum())):
            assignment[group] = len(models)
            left[group] = k + 1
            models = np.concatenate([models, models[k : k + 1]])
    return Clusters(models, assignment, left)
