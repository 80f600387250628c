"""What a summary says of a run in which clients attack: who they are, and what honest clients reach (the attackers' own
accuracy means nothing); and whom a robust rule suspects, in any run that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.records import Record
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.robust.byzantine import Byzantine
from fedkin.robust.robust import JUDGED
from fedkin.run.metrics.accuracy import bottom_decile

if TYPE_CHECKING:
    import pandas as pd


def attack_record(
    attack: Byzantine | None, state: State, clients: pd.DataFrame, true_clusters: Int[np.ndarray, "N"] | None
) -> Record:
    """What a summary says of an attack and of a robust rule, empty of a run without.

    ``honest_accuracy`` is the mean of honest clients' accuracies, ``honest_bottom_decile`` that of the bottom 10% of
    them, ``honest_ari`` the agreement of their clusters with the true ones, ``attackers_alone`` the share of attackers
    in clusters without honest clients, of those that have a cluster; each None where there is nothing to count.
    ``rule_weights`` is what the updates of each client counted under a robust rule, its mean over the rounds in which
    the rule judged them (1: as in a mean; 0: left out), None for clients that it never judged.

    Args:
        attack: who attacks.
        state: the method's final state.
        clients: the table of clients.
        true_clusters: of all clients, where they are known.
    """
    if attack is None:
        return _rule_weights(state)
    attacks = attack.attackers(len(state.assignment), true_clusters)
    counts = ~attacks[clients["client"].to_numpy(np.int64)] & (clients["test_samples"].to_numpy() > 0)
    accuracy = clients["accuracy"].to_numpy(np.float64)[counts]
    return {
        "honest_accuracy": float(accuracy.mean()) if len(accuracy) else None,
        "honest_bottom_decile": bottom_decile(accuracy),
        "honest_ari": _honest_ari(state.assignment, attacks, true_clusters),
        "attackers_alone": share_alone(state.assignment, attacks),
        "attackers": np.flatnonzero(attacks).tolist(),
        **_rule_weights(state),
    }


def _honest_ari(
    assignment: Int[np.ndarray, "N"], attacks: Bool[np.ndarray, "N"], true_clusters: Int[np.ndarray, "N"] | None
) -> float | None:
    """Of honest clients that have a cluster."""
    honest = ~attacks & (assignment != UNASSIGNED)
    if true_clusters is None or not honest.any():
        return None
    return float(adjusted_rand_index(true_clusters[honest], assignment[honest]))


def share_alone(assignment: Int[np.ndarray, "N"], attacks: Bool[np.ndarray, "N"]) -> float | None:
    """The share of attackers in clusters without honest clients, of those that have a cluster; None without any.

    Args:
        assignment: cluster of each client, or UNASSIGNED.
        attacks: which of them attack.
    """
    theirs = assignment[attacks & (assignment != UNASSIGNED)]
    return float((~np.isin(theirs, assignment[~attacks])).mean()) if len(theirs) else None


def _rule_weights(state: State) -> Record:
    """Empty without a rule."""
    weight, rounds = (getattr(state, name, None) for name in JUDGED)
    if weight is None or rounds is None:
        return {}
    known = [round(float(w / r), 4) if r else None for w, r in zip(weight, rounds, strict=True)]
    return {"rule_weights": known}
