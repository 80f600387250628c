"""How the clustering itself fares from round to round: who migrates, who notices a shift, who sits where it belongs.

A client *sits right* if its cluster is its kind's home. Every kind has at most one home and every cluster is home to at
most one kind, so that as many clients as possible sit right: the ids of clusters mean nothing, and where there are
fewer clusters than kinds some kinds have no home. One cluster for everybody is right for one kind only.

Only reachable clients count. Nothing is expected of a client without a cluster: its moves do not count, and what it
waited for is dropped when it loses its cluster, or leaves. A client that had no cluster before a round and has one
after it is a newcomer, in round 0 as in any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.records import Record
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.run.metrics import ratio

NEVER = -1  # in place of a round
NOTICED = -2  # in place of the round of a move: its client has noticed, and is still to be placed anew
_PREFIX = "cluster_metrics_"
_MEMORY = ("assignment", "true_clusters", "move_since", "event_since", "newcomer_since")
_SHIFT = ("data_shifts", "data_shifts_assigned", "data_shifts_new", "shifts_detected_true", "detection_delay_sum")
_PLACES = (
    *(
        "matched_share",
        "mismatched",
        "migrations_correct",
        "true_cluster_changes",
        "changes_recovered",
        "recovery_delay_sum",
    ),
    *("newcomers_matched", "newcomer_delay_sum"),
)


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """What only a simulation knows of a round: the true cluster of each client now, and whose data moved in it."""

    true_clusters: Int[np.ndarray, "N"] | None = None
    moved: Bool[np.ndarray, "N"] | None = None


class ClusterMetrics:
    """Looks at the assignment after each round, and remembers what it needs for the next: five arrays [N].

    ``assignment`` and ``true_clusters`` are those after the round before. The others hold the round in which a client began to
    wait, or NEVER: since its first move that it has not noticed, since its true cluster changed, since it was placed.
    """

    def __init__(self, total_clients: int) -> None:
        self.assignment = np.full(total_clients, UNASSIGNED)
        self.true_clusters, self.move_since, self.event_since, self.newcomer_since = np.full((4, total_clients), NEVER)

    def memory(self) -> dict[str, np.ndarray]:
        """What a checkpoint must keep, so that a resumed run measures the same."""
        return {_PREFIX + name: getattr(self, name).copy() for name in _MEMORY}

    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Go on from ``memory()``. Other names are ignored; what is missing stays as it is."""
        for name in _MEMORY:
            if _PREFIX + name in memory:
                setattr(self, name, memory[_PREFIX + name].copy())

    def look(
        self,
        round: int,
        assignment: Int[np.ndarray, "N"],
        reachable: Int[np.ndarray, "c"],
        scene: GroundTruth,
        noticed: Bool[np.ndarray, "N"] | None,
        noted: Bool[np.ndarray, "N"],
    ) -> Record:
        """Measure a round that was just done. Plain numbers, ``None`` where something cannot be said.

        Always:
            migrations: clients that had a cluster before the round and have another one now. Ids are compared as they
                are: where a split leaves the parent's id to one child, the clients of the other child have migrated.
            stability: adjusted Rand index between the former and the present clusters, over the clients that have one
                in both; None where there are none, as in round 0. A lone cluster that splits scores 0.
        Where clients were asked (else None):
            noticed: clients that found in this round that their data have shifted. One whose move was noticed
                before, and that has not been placed anew since, counts once.
        Where it is known whose data moved (else None):
            moved: clients whose data moved in this round; data_shifts_assigned: of these, the ones that had a cluster.
            data_shifts_new: clients with a cluster whose data moved for the first time since they were placed or noticed.
            shifts_detected_true: of those noticed, the clients whose data did move since they were placed or last noticed.
            detection_delay_sum: rounds from the first of these moves to its notice, over those clients.
        Where true clusters are known (else None):
            right: share of the clients with a cluster that sit right; astray: how many do not.
            migrations_correct: of the migrations, those that sit right now.
            events: clients with a cluster whose true cluster changed in this round. If it changes again before the
                client sits right, that is another event, and the one before stays unanswered.
            answered, recovery_delay_sum: events whose client sits right for the first time since, and the rounds it
                took; 0 if it sits right in the same round, even if nothing had to change.
            newcomers_matched, newcomer_delay_sum: newcomers that sit right for the first time since they were placed,
                and the rounds it took.

        Args:
            noticed: who found that its data have shifted; None where the method did not ask.
            noted: who was placed in this round, and noted what its data are.
        """
        there = np.zeros(len(assignment), bool)
        there[reachable] = True
        had, has = there & (self.assignment != UNASSIGNED), there & (assignment != UNASSIGNED)
        migrated = had & has & (assignment != self.assignment)
        record = {
            "migrations": int(migrated.sum()),
            "stability": _stability(self.assignment[had & has], assignment[had & has]),
            **self._shift(round, had, there, scene.moved, noticed),
            **self._places(round, had, has, assignment, scene.true_clusters),
        }
        self.move_since[noted] = NEVER
        for since in (self.move_since, self.event_since, self.newcomer_since):
            since[~has] = NEVER
        self.assignment = assignment.copy()
        return record

    def _shift(
        self,
        round: int,
        had: Bool[np.ndarray, "N"],
        there: Bool[np.ndarray, "N"],
        moved: Bool[np.ndarray, "N"] | None,
        noticed: Bool[np.ndarray, "N"] | None,
    ) -> Record:
        """Whose data moved, and who noticed."""
        new = None if noticed is None else noticed & (self.move_since != NOTICED)
        record: Record = {"shifts_detected": None if new is None else int(new.sum()), **dict.fromkeys(_SHIFT)}
        if moved is None:
            return record
        fresh = moved & had & (self.move_since == NEVER)
        self.move_since[fresh] = round
        record |= {
            name: int(part.sum()) for name, part in zip(_SHIFT, (moved & there, moved & had, fresh), strict=False)
        }
        if new is not None:
            waited = new & (self.move_since >= 0)
            record |= dict(zip(_SHIFT[3:], _ended(self.move_since, new, round), strict=True))
            self.move_since[waited] = NOTICED
        return record

    def _places(
        self,
        round: int,
        had: Bool[np.ndarray, "N"],
        has: Bool[np.ndarray, "N"],
        assignment: Int[np.ndarray, "N"],
        true_clusters: Int[np.ndarray, "N"] | None,
    ) -> Record:
        """Who sits right, and since when the others do not."""
        if true_clusters is None:
            return dict.fromkeys(_PLACES)
        right = matches_true_cluster(assignment, true_clusters, has)
        came = right & had & (assignment != self.assignment)
        changed = had & (self.true_clusters != true_clusters)
        self.event_since[changed] = round
        self.newcomer_since[has & ~had] = round
        self.true_clusters = true_clusters.astype(np.int64)
        sits, sitting = int(right.sum()), int(has.sum())
        counts = (ratio(sits, sitting), sitting - sits, int(came.sum()), int(changed.sum()))
        ended = (*_ended(self.event_since, right, round), *_ended(self.newcomer_since, right, round))
        return dict(zip(_PLACES, (*counts, *ended), strict=True))


def matches_true_cluster(
    assignment: Int[np.ndarray, "N"], true_clusters: Int[np.ndarray, "N"], has: Bool[np.ndarray, "N"]
) -> Bool[np.ndarray, "N"]:
    """Which of the clients that count (``has``: reachable, and with a cluster) sit in the home of their kind."""
    from scipy.optimize import linear_sum_assignment

    kinds, kind = np.unique(true_clusters[has], return_inverse=True)
    cluster, clusters = assignment[has], int(assignment.max(initial=0)) + 1
    sitting = np.bincount(kind * clusters + cluster, minlength=len(kinds) * clusters)
    home = np.full(len(kinds), UNASSIGNED)
    housed, homes = linear_sum_assignment(sitting.reshape(len(kinds), clusters), maximize=True)
    home[housed] = homes
    right = has.copy()
    right[has] = cluster == home[kind]
    return right


def summary(records: Iterable[Record]) -> Record:
    """The clustering over all rounds, from the records of ``ClusterMetrics.look``; None where there is nothing to divide by."""
    rounds = list(records)

    def share(part: str, whole: str) -> float | None:
        """Over the rounds in which both are known."""
        known = [(r[part], r[whole]) for r in rounds if r[part] is not None]
        return ratio(sum(a for a, _ in known), sum(b for _, b in known))

    stable = [r["stability"] for r in rounds if r["stability"] is not None]
    return {
        "migrations": sum(known)
        if (known := [r["migrations"] for r in rounds if r["migrations"] is not None])
        else None,
        "stability": float(np.mean(stable)) if stable else None,
        "shift_precision": share("shifts_detected_true", "shifts_detected"),
        "shift_recall": share("shifts_detected_true", "data_shifts_new"),
        "shift_delay": share("detection_delay_sum", "shifts_detected_true"),
        "migration_precision": share("migrations_correct", "migrations"),
        "migration_recall": share("changes_recovered", "true_cluster_changes"),
        "migration_delay": share("recovery_delay_sum", "changes_recovered"),
        "newcomer_delay": share("newcomer_delay_sum", "newcomers_matched"),
    }


def _stability(before: Int[np.ndarray, "c"], after: Int[np.ndarray, "c"]) -> float | None:
    return float(adjusted_rand_index(before, after)) if len(before) else None


def _ended(since: Int[np.ndarray, "N"], done: Bool[np.ndarray, "N"], round: int) -> tuple[int, int]:
    """End the waits of those that are done (in place): how many ended, and the rounds they took together."""
    ended = done & (since >= 0)
    rounds = int((round - since[ended]).sum())
    since[ended] = NEVER
    return int(ended.sum()), rounds
