"""Summary entries of a run with attacks: the attackers, and the accuracy (or other score) of honest
clients.

The score of attackers is left out, since no honest user depends on it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.records import Record
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.measures.fairness import worst_decile
from fedkin.options.base import RunEnd


def attack_record(attacks: Bool[np.ndarray, "N"], end: RunEnd) -> Record:
    """The entries about an attack in a run's summary.

    ``honest_accuracy`` is the mean accuracy of honest clients, ``honest_bottom_decile`` the mean
    over their bottom 10%. Other task types have the name of their score there, and the mean of the
    worst 10%. ``honest_ari`` is the adjusted Rand index between their clusters and the
    true clusters. ``attackers_alone`` is the share of attackers in clusters without honest clients,
    among attackers that have a cluster. ``attackers`` lists the attackers. An undefined entry is
    None.

    Args:
        attacks: which clients attack.
        end: facts about the run at its end.
    """
    assignment = end.state.assignment
    scored = end.clients["client"]
    counts = ~attacks[scored] & (end.clients["test_samples"] > 0)
    names = end.task_type.names
    scores = np.asarray(end.clients[names.score], np.float64)[counts]
    known = scores[~np.isnan(scores)]
    return {
        f"honest_{names.score}": float(known.mean()) if len(known) else None,
        f"honest_{names.worst}": worst_decile(known, end.task_type.measure.sign),
        "honest_ari": _honest_ari(assignment, attacks, end.true_clusters),
        "attackers_alone": share_alone(assignment, attacks),
        "attackers": np.flatnonzero(attacks).tolist(),
    }


def _honest_ari(
    assignment: Int[np.ndarray, "N"],
    attacks: Bool[np.ndarray, "N"],
    true_clusters: Int[np.ndarray, "N"] | None,
) -> float | None:
    """Adjusted Rand index between found and true clusters, over the honest clients that have a
    cluster; None if true clusters are unknown or no honest client has a cluster."""
    honest = ~attacks & (assignment != UNASSIGNED)
    if true_clusters is None or not honest.any():
        return None
    return float(adjusted_rand_index(true_clusters[honest], assignment[honest]))


def share_alone(assignment: Int[np.ndarray, "N"], attacks: Bool[np.ndarray, "N"]) -> float | None:
    """The share of attackers in clusters without honest clients.

    Only attackers that have a cluster count; None if there are none.

    Args:
        assignment: cluster of each client, or UNASSIGNED.
        attacks: which clients attack.
    """
    clusters = assignment[attacks & (assignment != UNASSIGNED)]
    if not len(clusters):
        return None
    return float((~np.isin(clusters, assignment[~attacks])).mean())
