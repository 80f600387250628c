"""Metrics of the clustering over rounds: migrations, detected shifts, agreement with true clusters.

Clusters and true clusters are paired one to one, so that as many clients as possible are in the
cluster that is paired with their true cluster. These clients are called *matched*. The ids of
clusters do not matter. If there are fewer clusters than true clusters, some true clusters have no
pair.

A client *waits* from an event until the event is dealt with. After a shift of its data, it waits
until it detects the shift. After a change of its true cluster, or after it has got a cluster and
had none before, it waits until it is matched. The delays are the lengths of waits in rounds.

Only reachable clients count. A client without a cluster does not wait: changes of its data are
ignored. If a client loses its cluster or leaves, its waits end and are not counted. A client that
gets a cluster in a round, and had none before, is a newcomer. This includes round 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.records import Record
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.run.metrics.accuracy import ratio

NEVER = -1  # in place of a round
# In place of the round of a shift that the client has detected, until it is placed again.
DETECTED = -2
_PREFIX = "cluster_metrics_"
_MEMORY = ("assignment", "true_clusters", "shift_since", "change_since", "newcomer_since")
_SHIFTS = ("data_shifts", "data_shifts_assigned", "data_shifts_new")
_DETECTED = ("shifts_detected_true", "detection_delay_sum")
_MATCHES = (
    *("matched_share", "mismatched", "migrations_correct", "true_cluster_changes"),
    *("changes_recovered", "recovery_delay_sum", "newcomers_matched", "newcomer_delay_sum"),
)


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """Facts about a round that only a simulation knows: each client's true cluster, and the clients
    with shifted data."""

    true_clusters: Int[np.ndarray, "N"] | None = None
    shifted: Bool[np.ndarray, "N"] | None = None


class ClusterMetrics:
    """Measures the assignment of clients to clusters after each round. It stores five arrays [N]
    for the next round.

    ``assignment`` and ``true_clusters`` are the clusters and true clusters of the previous round.
    The other three arrays hold the round of an event, or ``NEVER`` for a client without such an
    event:

    * ``shift_since``: the first shift of the client's data that it has not detected; ``DETECTED``
      after it has detected a shift, until it is placed again.
    * ``change_since``: a change of the client's true cluster since which it has not been matched.
    * ``newcomer_since``: the round in which the client got a cluster and had none before, if it has
      not been matched since.
    """

    def __init__(self, total_clients: int) -> None:
        self.assignment = np.full(total_clients, UNASSIGNED)
        waits = np.full((4, total_clients), NEVER)
        self.true_clusters, self.shift_since, self.change_since, self.newcomer_since = waits
        # Mask of the clients with a cluster. It is kept, since few clients change in a round.
        self._assigned = np.zeros(total_clients, bool)
        # Result of the last call of ``changed``: its argument and the clients. Assignments are
        # never changed in place, so the same array has the same result.
        self._compared: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "m"]] | None = None

    def changed(self, assignment: Int[np.ndarray, "N"]) -> Int[np.ndarray, "m"]:
        """The clients whose cluster has changed since the last round."""
        if self._compared is None or assignment is not self._compared[0]:
            self._compared = assignment, np.flatnonzero(assignment != self.assignment)
        return self._compared[1]

    def memory(self) -> dict[str, np.ndarray]:
        """The arrays that a checkpoint must store, so that a resumed run measures the same."""
        return {_PREFIX + name: getattr(self, name).copy() for name in _MEMORY}

    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Restore the arrays of ``memory()``. Other names are ignored; missing arrays stay
        unchanged."""
        for name in _MEMORY:
            if _PREFIX + name in memory:
                setattr(self, name, memory[_PREFIX + name].copy())
        self._assigned = self.assignment != UNASSIGNED
        self._compared = None

    def record(
        self,
        round: int,
        assignment: Int[np.ndarray, "N"],
        reachable: Int[np.ndarray, "c"],
        truth: GroundTruth,
        detected: Bool[np.ndarray, "N"] | None,
        placed: Bool[np.ndarray, "N"],
    ) -> Record:
        """Measure the round that has just finished. Entries are plain numbers, or None if
        undefined.

        In every run:
            migrations: number of clients that had a cluster before the round and have another one
                now. Ids are compared directly: if a cluster splits and one part keeps its id, the
                clients of the other part have migrated.
            stability: adjusted Rand index between the former and the present clusters, over the
                clients with a cluster in both; None without such clients, as in round 0. A single
                cluster that splits scores 0.
        If clients test for shifts (otherwise None):
            shifts_detected: number of clients that detected a shift of their data in this round. A
                client counts only once until it is placed again.
        If the clients with shifted data are known (otherwise None):
            data_shifts: number of clients whose data shifted in this round.
            data_shifts_assigned: number of these clients with a cluster.
            data_shifts_new: number of clients with a cluster whose data shifted for the first time
                since they were placed or detected a shift.
            shifts_detected_true: number of clients in ``shifts_detected`` whose data did shift
                since they were placed or last detected a shift.
            detection_delay_sum: rounds from a client's first undetected shift to its detection,
                summed over the clients in ``shifts_detected_true``.
        If true clusters are known (otherwise None):
            matched_share: share of the clients with a cluster that are matched.
            mismatched: number of clients with a cluster that are not matched.
            migrations_correct: number of migrations after which the client is matched.
            true_cluster_changes: number of clients with a cluster whose true cluster changed in
                this round. If it changes again before the client is matched, that counts as another
                change, and the earlier one is never recovered.
            changes_recovered, recovery_delay_sum: number of changes after which the client is now
                matched for the first time, and the sum of rounds this took. The delay is 0 if the
                client is matched in the same round.
            newcomers_matched, newcomer_delay_sum: number of newcomers that are now matched for the
                first time, and the sum of rounds since their placement.

        Args:
            round: the round's number.
            assignment: cluster of each client after the round.
            reachable: ids of the reachable clients; only these count.
            truth: facts about the round from the simulation.
            detected: mask of the clients that detected a shift of their data; None if clients do
                not test for shifts.
            placed: mask of the clients that were placed in this round and stored their label
                counts.
        """
        changed = self.changed(assignment)
        counts = np.ones(len(assignment), bool)
        # Masks before and after the round: ``before`` and ``assigned`` of all clients with a
        # cluster, ``had`` and ``has`` of the reachable ones among them.
        before = self._assigned
        assigned = self._assigned.copy()
        assigned[changed] = assignment[changed] != UNASSIGNED
        had = before
        has = assigned
        if len(reachable) < len(assignment):
            counts[:] = False
            counts[reachable] = True
            had = before & counts
            has = assigned & counts
        record = {
            **self._changes(changed[had[changed] & has[changed]], had, has, assignment),
            **self._shifts(round, had, counts=counts, shifted=truth.shifted, detected=detected),
            **self._matches(
                round, had, has=has, assignment=assignment, true_clusters=truth.true_clusters
            ),
        }
        self.shift_since[np.flatnonzero(placed)] = NEVER
        left = np.flatnonzero(
            before & ~has
        )  # only clients that lost their cluster have waits to end
        for since in (self.shift_since, self.change_since, self.newcomer_since):
            since[left] = NEVER
        self.assignment[changed] = assignment[changed]
        self._assigned = assigned
        self._compared = assignment, np.zeros(0, np.int64)
        return record

    def _changes(
        self,
        migrants: Int[np.ndarray, "m"],
        had: Bool[np.ndarray, "N"],
        has: Bool[np.ndarray, "N"],
        assignment: Int[np.ndarray, "N"],
    ) -> Record:
        """The entries ``migrations`` and ``stability`` of a round's record. Without migrations,
        stability is 1."""
        both = had & has
        if len(migrants):
            stability = float(adjusted_rand_index(self.assignment[both], assignment[both]))
        else:
            stability = 1.0 if both.any() else None
        return {"migrations": len(migrants), "stability": stability}

    def _shifts(
        self,
        round: int,
        had: Bool[np.ndarray, "N"],
        counts: Bool[np.ndarray, "N"],
        shifted: Bool[np.ndarray, "N"] | None,
        detected: Bool[np.ndarray, "N"] | None,
    ) -> Record:
        """The entries of a round's record about shifts of data and their detection."""
        new = None if detected is None else detected & (self.shift_since != DETECTED)
        record: Record = {"shifts_detected": None if new is None else int(new.sum())}
        record |= dict.fromkeys((*_SHIFTS, *_DETECTED))
        if shifted is None:
            return record
        # Several shifts of a client before a detection count once, from the first one on.
        first = shifted & had & (self.shift_since == NEVER)
        self.shift_since[first] = round
        parts = (shifted & counts, shifted & had, first)
        record |= {name: int(part.sum()) for name, part in zip(_SHIFTS, parts, strict=True)}
        if new is not None:
            # Taken before the waits end, which sets ``shift_since`` to NEVER.
            waited = new & (self.shift_since >= 0)
            record |= dict(zip(_DETECTED, _end_waits(self.shift_since, new, round), strict=True))
            self.shift_since[waited] = DETECTED
        return record

    def _matches(
        self,
        round: int,
        had: Bool[np.ndarray, "N"],
        has: Bool[np.ndarray, "N"],
        assignment: Int[np.ndarray, "N"],
        true_clusters: Int[np.ndarray, "N"] | None,
    ) -> Record:
        """The entries of a round's record about matched clients, and about the rounds until clients
        are matched."""
        if true_clusters is None:
            return dict.fromkeys(_MATCHES)
        matched = matches_true_cluster(assignment, true_clusters, has)
        migrated_right = matched & had & (assignment != self.assignment)
        changed = had & (self.true_clusters != true_clusters)
        self.change_since[changed] = round
        self.newcomer_since[has & ~had] = round
        self.true_clusters = true_clusters.astype(np.int64)
        matches = int(matched.sum())
        clients = int(has.sum())
        counts = (
            ratio(matches, clients),
            clients - matches,
            int(migrated_right.sum()),
            int(changed.sum()),
        )
        waits = (self.change_since, self.newcomer_since)
        ended = (number for since in waits for number in _end_waits(since, matched, round))
        return dict(zip(_MATCHES, (*counts, *ended), strict=True))


def matches_true_cluster(
    assignment: Int[np.ndarray, "N"],
    true_clusters: Int[np.ndarray, "N"],
    has_cluster: Bool[np.ndarray, "N"],
) -> Bool[np.ndarray, "N"]:
    """Mask of the matched clients: those in the cluster that is paired with their true cluster.

    Args:
        assignment: cluster of each client.
        true_clusters: true cluster of each client.
        has_cluster: mask of the clients that count: reachable, and with a cluster.
    """
    from scipy.optimize import linear_sum_assignment  # slow to load

    true_ids, true = np.unique(true_clusters[has_cluster], return_inverse=True)
    cluster = assignment[has_cluster]
    clusters = int(assignment.max(initial=0)) + 1
    # Number of clients of each true cluster in each cluster. The matching with the largest sum of
    # these numbers pairs them.
    overlap = np.bincount(true * clusters + cluster, minlength=len(true_ids) * clusters)
    match = np.full(len(true_ids), UNASSIGNED)
    rows, columns = linear_sum_assignment(overlap.reshape(len(true_ids), clusters), maximize=True)
    match[rows] = columns
    matched = has_cluster.copy()
    matched[has_cluster] = cluster == match[true]
    return matched


def summary(records: Iterable[Record]) -> Record:
    """Metrics of the clustering over all rounds, from the records of ``ClusterMetrics``. An
    undefined ratio is None."""
    rounds = list(records)

    def share(part: str, whole: str) -> float | None:
        """Sum of the entry ``part`` divided by the sum of the entry ``whole``, over the rounds
        whose record has both."""
        known = [(r[part], r[whole]) for r in rounds if r[part] is not None]
        return ratio(sum(a for a, _ in known), sum(b for _, b in known))

    stability = [r["stability"] for r in rounds if r["stability"] is not None]
    migrations = [r["migrations"] for r in rounds if r["migrations"] is not None]
    return {
        "migrations": sum(migrations) if migrations else None,
        "stability": float(np.mean(stability)) if stability else None,
        "shift_precision": share("shifts_detected_true", "shifts_detected"),
        "shift_recall": share("shifts_detected_true", "data_shifts_new"),
        "shift_delay": share("detection_delay_sum", "shifts_detected_true"),
        "migration_precision": share("migrations_correct", "migrations"),
        "migration_recall": share("changes_recovered", "true_cluster_changes"),
        "migration_delay": share("recovery_delay_sum", "changes_recovered"),
        "newcomer_delay": share("newcomer_delay_sum", "newcomers_matched"),
    }


def _end_waits(
    since: Int[np.ndarray, "N"], done: Bool[np.ndarray, "N"], round: int
) -> tuple[int, int]:
    """End the waits of the clients in the mask ``done``. ``since``, the round in which each
    client's wait began, is changed in place. Returns the number of waits that ended, and the sum of
    their lengths in rounds."""
    ended = done & (since >= 0)
    rounds = int((round - since[ended]).sum())
    since[ended] = NEVER
    return int(ended.sum()), rounds
