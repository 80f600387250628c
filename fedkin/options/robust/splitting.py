"""Clusters that are split: clients that a rule has left out several times in a row get a cluster of
their own, so that attackers that were honest while clusters were found (sleepers) end up alone when
they wake.

Ours. Shapes: N clients, K clusters, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED

SPLIT = (
    "times_left_out",
    "left_cluster",
)  # arrays [N] of a state: updates left out in a row; which cluster, from 1 on
SUSPECT = 0.5  # a rule leaves out, or suspects, whose updates count less than this, where 1 is as in a mean


class Clusters(NamedTuple):
    """Models, and the cluster of each client; of one that has left another, also which, from 1 on,
    else 0."""

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]
    left_cluster: Int[np.ndarray, "N"]


def times_left_out(
    before: Int[np.ndarray, "N"], weight: Float[np.ndarray, "N"], judged: Bool[np.ndarray, "N"]
) -> Int[np.ndarray, "N"]:
    """How many updates of each client were left out in a row: one that counted ends the row.

    Args:
        before: the same before the round.
        weight: what the rule made of each client's update of this round.
        judged: who has sent one that the rule has judged. Updates that are only remembered are not
            judged anew.
    """
    return np.where(judged, np.where(weight < SUSPECT, before + 1, 0), before)


def split(clusters: Clusters, due: Bool[np.ndarray, "N"], most: Callable[[int], int]) -> Clusters:
    """The clusters after clients that are due have left: those of one cluster together, with a copy
    of its model.

    Who has left once does not leave again. A group stays if with it more clients had left its
    cluster than may be Byzantine: then the rule may have left out the honest, and the fewer of them
    are left the more it would.

    Args:
        clusters: before.
        due: clients that have been left out often enough.
        most: of so many clients of a cluster those that may be Byzantine.
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
