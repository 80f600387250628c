"""Measurements after the last round: final test results, and the accuracy over all clients,
including clients without a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.world import World, scored_clients
from fedkin.measures.measure import Measure
from fedkin.measures.scores import OTHER_MEASURES, ScoreNames, names_in
from fedkin.methods.cluster_steps import cluster_by_loss
from fedkin.run.folder.checkpoint import BestRound
from fedkin.run.metrics.accuracy import EvaluationResults, score
from fedkin.run.metrics.round_records import estimated_totals, measures_record, score_record
from fedkin.simulation.engine import SimulatedWorld

# If more clients have no cluster, they are not placed just to measure the accuracy over all
# clients, since that takes too long.
MAX_PLACED = 10_000
# Entries of a run with attacks or with a robust rule.
ATTACKED = ("honest_ari", "attackers_alone", "attackers", "rule_weights")
_log = logging.getLogger("fedkin")


def of_final(names: ScoreNames) -> tuple[str, ...]:
    """Entries of the final state's scores that records of rounds have, too."""
    return (names.median, names.worst, "cluster_sizes", "ari", "nmi")


def of_best(names: ScoreNames) -> tuple[str, ...]:
    """Entries of the best round's scores."""
    return (names.best, f"best_{names.median}", f"best_{names.worst}")


def final_names(names: ScoreNames) -> tuple[str, ...]:
    """Entries of a summary that are not in the records of rounds."""
    scores = (names.final, *of_final(names), *of_best(names), names.all_clients)
    others = (name for other in OTHER_MEASURES for name in _final_names(other))
    attacked = (names.honest, names.honest_worst, *ATTACKED)
    ended = ("final_partial", "final_interval", "stopped", *attacked, "privacy", "secret")
    return (*scores, *ended, names.per_client, "unranked", *others)


def _final_names(measure: str) -> tuple[str, str]:
    """Entries of a summary about a further measure: its value at the end, and its interval."""
    final = ScoreNames(measure).final
    return final, f"{final}_interval"


def number_entries(record: Mapping[str, Any], names: ScoreNames) -> Record:
    """Entries of a summary that only runs on numbers have, from the record of the last round: the
    score per client, the number of clients that are not ranked, and the further measures.

    Args:
        record: the record; of classes the result is empty.
        names: names of the score.
    """
    entries = {name: record[name] for name in (names.per_client, "unranked") if name in record}
    for name in OTHER_MEASURES:
        if name in record and name != names.score:
            entries[ScoreNames(name).final] = record[name]
        if f"{name}_interval" in record and name != names.score:
            entries[f"{ScoreNames(name).final}_interval"] = record[f"{name}_interval"]
    return entries


def final_entries(summary: Mapping[str, Any], measures: Sequence[Measure]) -> Record:
    """The entries of a summary that the records of rounds lack, or for which the last record may
    have another value (e.g. measured on validation instead of test samples).

    Args:
        summary: summary of a run.
        measures: the user's measures.
    """
    names = (*final_names(names_in(summary)), *(measure.name for measure in measures))
    return {name: summary[name] for name in names if name in summary}


def final_record(
    world: World,
    state: State,
    scored: EvaluationResults,
    round: int,
    measures: Sequence[Measure] = (),
) -> Record:
    """Test results of the final state, under their names in a summary.

    Args:
        world: the clients.
        state: the method's final state.
        scored: test results of the final state.
        round: number of the last round.
        measures: the user's measures over evaluated clients.
    """
    names = scored.names
    entries = score_record(scored, state.clusters, world.true_clusters, scored.task_type)
    interval = {"final_interval": entries[names.interval]} if names.interval in entries else {}
    return {
        names.final: entries[names.score],
        **interval,
        **{name: entries[name] for name in of_final(names)},
        **number_entries(entries, names),
        **measures_record(scored, state, round, measures),
    }


def best_record(
    world: World,
    best: BestRound | None,
    round: int,
    final: EvaluationResults,
    sample: tuple[int, Stream] | None = None,
) -> Record:
    """Test results of the best round's state, under their names in a summary.

    The best round is selected on validation samples. All entries are None if no round was complete,
    or if clients that arrived later have no cluster in that state.

    Args:
        world: simulated clients.
        best: the best round.
        round: number of the last round; clients are tested with their data in that round.
        final: test results of the final state, which are reused if the last round is the best.
        sample: the number of clients to test, and the stream of random numbers that draws them;
            None: all clients.
    """
    names = final.names
    if best is None:
        return dict.fromkeys(of_best(names))
    scored = (
        final
        if best.round == round
        else score(_with_memory(world, best), best.state, round, sample=sample)
    )
    if scored.partial:
        _log.warning(
            "%s is unknown: the best round is round %d, and some clients that arrived later have "
            "no cluster in its state",
            names.best,
            best.round,
        )
        return dict.fromkeys(of_best(names))
    entries = score_record(scored, best.state.clusters, None, scored.task_type)
    return {name: entries[name.removeprefix("best_")] for name in of_best(names)}


def _with_memory(world: World, best: BestRound) -> World:
    """The world in which the best round is tested: a copy in which clients have their memory from
    that round. If clients have no memory, the world itself."""
    if not best.memory or not isinstance(world, SimulatedWorld):
        return world
    other = world.rehearsal()
    other.recall(best.memory)
    return other


def score_all_clients(
    world: World, method: Method, state: State, stream: Stream, scored: EvaluationResults
) -> float | None:
    """Test score (such as the accuracy) over all reachable clients. Clients without a cluster are
    placed first.

    The method places them by its rule for newcomers. A client that this rule leaves without a
    cluster is assigned to the cluster whose model has the lowest loss on the client's training
    samples (not if models are detectors). This happens e.g. with a method that assigns clients only
    in the rounds in which they train.

    State and memory stay unchanged, since copies are used, and the traffic counts as evaluation.
    Clients that are permanently without a cluster (``excluded``) are left out.

    Args:
        world: the clients.
        method: the method, which places clients.
        state: the method's final state.
        stream: random numbers for the placement.
        scored: the test results of the clients with a cluster.

    Returns:
        The score. None for real clients, if more than ``MAX_PLACED`` clients have no cluster, or
        if a client cannot be placed. If only a sample of clients was tested: an estimate, or None
        if some clients have no cluster.
    """
    # Every reachable client has been evaluated already.
    if not scored.partial:
        return _score(scored)
    if scored.sizes is not None:
        return None
    reachable = scored_clients(world, stream.round)
    newcomers = _without_cluster(state, reachable)
    if not isinstance(world, SimulatedWorld) or len(newcomers) > MAX_PLACED:
        return None
    # Clients are placed in a copy of the world, so that the run is not changed.
    other = world.rehearsal()
    try:
        with world.ledger.scoring():
            placed = _placed(other, method, state=state, newcomers=newcomers, stream=stream)
            everybody = score(other, placed, stream.round)
    except FedkinError as error:
        _log.warning("%s over all clients is unknown: %s", scored.names.score, error)
        return None
    return None if everybody.partial else _score(everybody)


def _placed(world: World, method: Method, state: Any, newcomers: np.ndarray, stream: Stream) -> Any:
    """The state after the method has assigned newcomers to clusters. A newcomer that the method
    leaves without a cluster is assigned to the cluster whose model has the lowest loss on the
    newcomer's training samples, unless models are detectors."""
    placed = method.place(world, state, newcomers, stream.child("place"))
    left = _without_cluster(placed, newcomers)
    if not len(left) or world.spec.detects:
        return placed
    assignment = placed.assignment.copy()
    assignment[left] = cluster_by_loss(world, placed, left)
    return replace(placed, assignment=assignment)


def _without_cluster(state: State, clients: np.ndarray) -> np.ndarray:
    """Those of the given clients that have no cluster, but may get one (they are not excluded)."""
    return clients[(state.assignment[clients] == UNASSIGNED) & ~state.excluded()[clients]]


def _score(scored: EvaluationResults) -> float | None:
    """The score over all clients, from their test results; an estimate if only a sample of the
    clients was evaluated."""
    if scored.sizes is None:
        return scored.totals()[scored.names.score]
    estimated = estimated_totals(scored)
    return None if estimated is None else estimated.values[scored.names.score]
