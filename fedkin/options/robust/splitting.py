"""Clusters that are split: clients that a rule has left out several times in a row get a separate
cluster. So attackers that were honest while clusters were found (sleepers) end up alone when they
wake.

Ours. Shapes: N clients, K clusters, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED

# Arrays [N] in the state: how many updates were left out in a row, and which cluster a client left,
# counted from 1; 0: none.
SPLIT = ("times_left_out", "left_cluster")
# Below this weight an update counts as left out; 1 is as in a mean.
SUSPECT = 0.5


class Clusters(NamedTuple):
    """Models, the cluster of each client, and the cluster that it left: from 1 on, 0 for none."""

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]
    left_cluster: Int[np.ndarray, "N"]


def times_left_out(
    before: Int[np.ndarray, "N"], weight: Float[np.ndarray, "N"], judged: Bool[np.ndarray, "N"]
) -> Int[np.ndarray, "N"]:
    """How many updates of each client were left out in a row: one that counted ends the row.

    Args:
        before: the same before the round.
        weight: the rule's weight of each client's update in this round.
        judged: who has sent an update that the rule has judged. Updates that are only remembered
            are not judged again.
    """
    after = np.where(weight < SUSPECT, before + 1, 0)
    return np.where(judged, after, before)


def split(clusters: Clusters, due: Bool[np.ndarray, "N"], most: Callable[[int], int]) -> Clusters:
    """The clusters after clients that are due have left: all that leave one cluster go together,
    with a copy of its model.

    A client that has left once does not leave again. A group stays if with it more clients would
    have left its cluster than may be Byzantine: then the rule may have left out honest clients, and
    would leave out more of them as fewer are left.

    Args:
        clusters: before.
        due: clients that have been left out often enough.
        most: from the number of clients of a cluster to how many of them may be Byzantine.
    """
    models = clusters.models
    assignment = clusters.assignment.copy()
    left = clusters.left_cluster.copy()
    for k in np.unique(assignment[due & (assignment != UNASSIGNED)]):
        gone = clusters.left_cluster == k + 1
        members = clusters.assignment == k
        group = members & due & (clusters.left_cluster == 0)
        if group.any() and (group | gone).sum() <= most(int((members | gone).sum())):
            assignment[group] = len(models)
            left[group] = k + 1
            models = np.concatenate([models, models[k : k + 1]])
    return Clusters(models, assignment, left)
