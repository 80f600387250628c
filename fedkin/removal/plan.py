"""The plan of a replay: which rounds and clusters run again, and at which cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.requirements import Separation
from fedkin.options import SECTIONS
from fedkin.removal.history import RecordedRun
from fedkin.removal.taint import first_tainted_rounds, replay_starts

_BY_MODEL = ("by_choice", "by_cluster")


@dataclass(frozen=True)
class ReplayPlan:
    """The rounds and clusters of a replay. Shapes: K clusters, T rounds.

    Attributes:
        clients: ids of the clients to be removed.
        rounds: T, the number of rounds of the run.
        start: the replay continues from the stored models of this round; 0: from the beginning.
        first: first tainted round of each cluster, or NEVER.
        starts: the round after which each cluster is trained again; T for a cluster that is not.
        why_all: why every cluster is trained again; empty if only some are.
        client_rounds: number of clients asked to train in the rounds of the replay, summed over
            rounds.
        of: the same number for a whole run.
    """

    clients: tuple[int, ...]
    rounds: int
    start: int
    first: Int[np.ndarray, "K"]
    starts: Int[np.ndarray, "K"]
    why_all: str
    client_rounds: int
    of: int

    @property
    def share(self) -> float:
        """Share of a whole run's client-rounds that the replay needs."""
        return self.client_rounds / self.of if self.of else 1.0

    @property
    def trained(self) -> Bool[np.ndarray, "K"]:
        """Mask of the clusters that are trained again."""
        return self.starts < self.rounds


def plan_replay(
    history: RecordedRun, clients: Int[np.ndarray, "g"], separation: Separation, obstacle: str = ""
) -> ReplayPlan:
    """Plan the replay of a run without some clients.

    Args:
        history: what the run has recorded.
        clients: ids of the clients to be removed.
        separation: how far a client's updates spread among the method's models.
        obstacle: why the whole run must be repeated, whatever the method; empty: no reason.
    """
    first = first_tainted_rounds(history.traces(clients), history.clusters)
    start = 0
    why_all = obstacle or _why_all(history, separation)
    if not obstacle and separation.models != "unknown":
        start = _start(history, clients, one_model=separation.models == "one")
    starts = np.full(history.clusters, start)
    if not why_all:
        starts = np.maximum(replay_starts(first, history.kept, history.rounds), start)
    asked = _client_rounds(history, clients, starts, everything=bool(why_all), start=start)
    return ReplayPlan(
        clients=tuple(clients.tolist()),
        rounds=history.rounds,
        start=start,
        first=first,
        starts=starts,
        why_all=why_all,
        client_rounds=asked,
        of=sum(len(history.cohort(round)) for round in range(1, history.rounds + 1)),
    )


def obstacle_of(history: RecordedRun, sections: Iterable[str], validated: bool) -> str:
    """Why the whole run must be repeated, whatever the method; empty if there is no reason.

    Args:
        history: what the run has recorded.
        sections: the sections of the run's options.
        validated: whether validation samples choose the best round.
    """
    for section in sections:
        if section not in SECTIONS or not SECTIONS[section].by_client:
            words = SECTIONS[section].words if section in SECTIONS else f"option {section}"
            return f"the {words} may carry a client's contribution to every model"
    if validated or history.plan.patience is not None:
        return "validation samples of all clients have chosen the best round"
    if history.plan.until is not None or history.run.final.get("stopped"):
        return "scores of all clients have decided when the run ended"
    return ""


def evaluation_interval(plan: ReplayPlan, evaluate_every: int, kept: list[int]) -> int:
    """Rounds from one evaluation of the replay to the next, as ``Scoring.evaluate_every``.

    Clusters that are not trained again have models only in rounds with a checkpoint, so all
    clusters can be evaluated only there.

    Args:
        plan: the plan of the replay.
        evaluate_every: the run's interval.
        kept: rounds with a checkpoint, in regular steps from round 0 on.
    """
    if (plan.starts <= plan.start).all() or not evaluate_every:
        return evaluate_every
    later = [round for round in kept if round > 0]
    step = math.gcd(*later)
    if not later or later != list(range(step, later[-1] + 1, step)):
        return plan.rounds
    return math.lcm(evaluate_every, step)


def _why_all(history: RecordedRun, separation: Separation) -> str:
    """Why every cluster must be trained again; empty if it suffices to train some."""
    because = f" (option {separation.because})" if separation.because else ""
    if separation.models == "one":
        return "the method has one model for all clients"
    if separation.models not in _BY_MODEL:
        return f"the method mixes clients' updates in all models{because}"
    kept = set(history.kept)
    if separation.models == "by_choice" and not kept >= set(range(history.rounds)):
        return (
            f"clients choose by all models in every round{because}, and the run has not stored "
            "them (run.keep_checkpoints = true, run.checkpoint_every = 1)"
        )
    return ""


def _start(history: RecordedRun, clients: Int[np.ndarray, "g"], one_model: bool) -> int:
    """The last stored round before the clients first took part; 0 for the beginning.

    A client that has a cluster without having been in a cohort may have taken part in the start,
    unless there is one model, which all clients have from the start.
    """
    asked = history.first_cohort(clients) or history.rounds + 1
    placed = history.rounds + 1
    had_cluster = history.had_cluster(clients)
    if not one_model and had_cluster.any():
        placed = int(np.argmax(had_cluster))
    before = [round for round in history.kept if round < min(asked, placed)]
    return before[-1] if before else 0


def _client_rounds(
    history: RecordedRun,
    clients: Int[np.ndarray, "g"],
    starts: Int[np.ndarray, "K"],
    everything: bool,
    start: int,
) -> int:
    """Number of clients that the replay asks to train, summed over rounds, without those that are
    removed.

    Args:
        history: what the run has recorded.
        clients: clients to be removed.
        starts: the round after which each cluster is trained again.
        everything: whether all clusters are trained again, so that assignments do not matter.
        start: the round after which the replay begins.
    """
    total = 0
    for round in range(start + 1, history.rounds + 1):
        cohort = history.cohort(round)
        others = ~np.isin(cohort, clients)
        if everything:
            total += int(others.sum())
            continue
        cluster = history.assignments[round][cohort]
        placed = others & (cluster != UNASSIGNED)
        total += int((round > starts[cluster[placed]]).sum())
    return total


def takes_part(client: int, history: RecordedRun, one_model: bool) -> bool:
    """Whether a client was ever asked to train, or had a cluster from the start.

    Args:
        client: id of the client.
        history: what the run has recorded.
        one_model: whether all clients have the one model from the start.
    """
    if history.first_cohort(np.array([client])) is not None:
        return True
    return not one_model and bool(history.assignments[0][client] != UNASSIGNED)
