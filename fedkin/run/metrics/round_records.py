"""The entries of a round's record about scores, training loss and discrepancy, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import State
from fedkin.core.records import Record
from fedkin.core.strict_json import finite_or_none
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.measures.fairness import worst_decile
from fedkin.measures.measure import Measure, ScoredClients
from fedkin.measures.scores import ACCURACY, ScoreNames
from fedkin.run.metrics.accuracy import (
    EvaluationResults,
    GlobalModel,
    weighted_mean,
)
from fedkin.run.metrics.evaluation_sample import estimate
from fedkin.run.metrics.number_record import number_record
from fedkin.run.metrics.observations import Observations, distances
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.evaluate import Scores
from fedkin.tasks.train import TrainingReply


def _scored_names(names: ScoreNames) -> tuple[str, ...]:
    """The names of a record's entries about scores, in their order."""
    overall = (names.score, "partial", "loss", names.worst, names.median)
    return (*overall, names.by_cluster, "cluster_sizes", "ari", "nmi")


def score_record(
    scored: EvaluationResults | None,
    clusters: int,
    true_clusters: Int[np.ndarray, "N"] | None,
    task_type: TaskType = CLASSIFICATION,
) -> Record:
    """The scores of a round: over all clients together, by cluster, for the median client and for
    the worst 10% of clients. Of classes, the score is the accuracy: the share of test samples that
    are predicted correctly.

    All entries are None in a round without evaluation.

    Args:
        scored: test results of the round, if any.
        clusters: K, the number of clusters.
        true_clusters: true cluster of each of the N clients, if known.
        task_type: what the labels are.
    """
    names = task_type.names
    named = {} if names.score == ACCURACY else {"measure": names.score}
    if scored is None:
        return named | dict.fromkeys(_scored_names(names))
    examples = scored.scores.examples
    own = scored.client_scores[scored.defined]
    ranked = _ranked(task_type, examples)
    sampled = None if scored.sizes is None else estimated_totals(scored)
    totals = scored.totals() if sampled is None else sampled.values
    record = named | {
        names.score: totals[names.score],
        "partial": scored.partial,
        "loss": weighted_mean(scored.scores.loss, examples),
        names.worst: worst_decile(own[ranked[scored.defined]], task_type.measure.sign),
        names.median: finite_or_none(float(np.median(own))) if len(own) else None,
        names.by_cluster: scored.of_clusters(clusters),
        "cluster_sizes": _sizes(scored, clusters),
    }
    record |= {name: totals[name] for name in task_type.measures[1:]}
    if names.score != ACCURACY:
        record |= number_record(task_type, scored.scores, ranked, whole=scored.sizes is None)
    if sampled is not None:
        record["evaluated"] = int((examples > 0).sum())
        record[names.interval] = [sampled.low, sampled.high]
    if scored.excluded:
        record["excluded"] = scored.excluded
    if scored.members is not None:
        record["members"] = scored.members
    record |= away_record(scored)
    if scored.detectors is not None:
        record["accuracy_by_detector"] = scored.detectors
    if scored.global_model is not None:
        record |= global_record(scored.global_model, task_type)
    return record | true_cluster_agreement(scored, true_clusters)


def _ranked(task_type: TaskType, examples: Int[np.ndarray, "c"]) -> Bool[np.ndarray, "c"]:
    """The clients with enough samples to be ranked among the worst ones."""
    return examples >= task_type.least_ranked


def _sizes(scored: EvaluationResults, clusters: int) -> list[int]:
    """The number of clients of each cluster."""
    sizes = scored.sizes
    if sizes is None:
        sizes = np.bincount(scored.cluster, minlength=clusters)
    return [*sizes.tolist(), *[0] * (clusters - len(sizes))]


@dataclass(frozen=True)
class EstimatedTotals:
    """Measures over all clients, estimated from a sample of them, and the bounds of the score's
    95% interval."""

    values: dict[str, float | None]
    low: float | None
    high: float | None


def estimated_totals(scored: EvaluationResults) -> EstimatedTotals | None:
    """Estimate the measures over all clients from the clients that were evaluated; None without
    test samples."""
    assert scored.sizes is not None
    task_type = scored.task_type
    estimates = {}
    for name, column in task_type.named(scored.scores.sums).items():
        one = estimate(column, scored.scores.examples, scored.cluster, scored.sizes)
        if one is None:
            return None
        estimates[name] = one
    one_sample = np.int64(1)
    means = {name: np.float64(one.mean) for name, one in estimates.items()}
    values = task_type.values(means, one_sample)
    first = task_type.score_sum
    bounds = [
        float(task_type.values(means | {first: np.float64(end)}, one_sample)[task_type.names.score])
        for end in (estimates[first].low, min(estimates[first].high, task_type.highest))
    ]
    return EstimatedTotals(
        values={name: finite_or_none(float(value)) for name, value in values.items()},
        low=finite_or_none(min(bounds)),
        high=finite_or_none(max(bounds)),
    )


def measures_record(
    scored: EvaluationResults | None, state: State, round: int, measures: Sequence[Measure]
) -> Record:
    """The values of the user's measures (functions of the evaluated clients), by name. All are None
    in a round without evaluation.

    Args:
        scored: test results of the round, if any.
        state: the method's state after the round.
        round: the round's number.
        measures: measures with a function.

    Raises ConfigError if a measure's function raises an error, or does not return a number.
    """
    if scored is None or not (scored.scores.examples > 0).any():
        return dict.fromkeys(measure.name for measure in measures)
    known = scored.scores.examples > 0
    correct = np.zeros(len(known), np.int64)
    if scored.task_type.loss is None:
        correct = scored.scores.correct
    clients = ScoredClients(
        round=round,
        clients=scored.clients[known],
        cluster=scored.cluster[known],
        examples=scored.scores.examples[known],
        correct=correct[known],
        accuracy=scored.client_scores[known],
        loss=scored.scores.loss[known],
        state=state,
    )
    return {measure.name: measure.compute(clients) for measure in measures}


def away_record(scored: EvaluationResults) -> Record:
    """The entries ``scored`` (how many clients were evaluated) and ``scored_of`` (how many have a
    cluster). Empty unless some clients with a cluster were unreachable or did not reply.

    If only a sample of the clients is evaluated, clients outside the sample count in ``scored_of``.
    """
    if not scored.away:
        return {}
    reached = len(scored.clients) if scored.sizes is None else int(scored.sizes.sum())
    return {
        "scored": len(scored.clients) - scored.unanswered,
        "scored_of": reached + scored.unreachable,
    }


def global_record(mean: GlobalModel, task_type: TaskType = CLASSIFICATION) -> Record:
    """Accuracy and loss of the global model (the mean of the cluster models), and its distance to
    each cluster model. The distance is the group-to-global discrepancy of FedGroup. By mistake,
    FedGroup's code adds the sum of all distances to each distance; this function does not."""
    examples = mean.scores.examples
    return {
        f"global_{task_type.names.score}": _total_score(task_type, mean.scores),
        "global_loss": weighted_mean(mean.scores.loss, examples),
        "discrepancy_to_global": [finite_or_none(float(distance)) for distance in mean.distance],
    }


def true_cluster_agreement(
    scored: EvaluationResults, true_clusters: Int[np.ndarray, "N"] | None
) -> Record:
    """Agreement of clusters and true clusters: adjusted Rand index and normalised mutual
    information."""
    if true_clusters is None or not len(scored.clients):
        return {"ari": None, "nmi": None}
    from sklearn.metrics import normalized_mutual_info_score  # takes a second to import

    known = true_clusters[scored.clients]
    return {
        "ari": float(adjusted_rand_index(known, scored.cluster)),
        "nmi": float(normalized_mutual_info_score(known, scored.cluster)),
    }


def training_record(
    observations: Observations, state: State, task_type: TaskType = CLASSIFICATION
) -> Record:
    """Training metrics of the round's cohort: loss in the last and first local epoch (weighted by
    examples), discrepancy, and missing or excluded replies.

    Args:
        observations: the replies of the round.
        state: the method's state after the round.
        task_type: what the labels are.
    """
    reply = observations.training.reply if observations.training else None
    return {
        "train_loss": _training_loss(reply, "loss"),
        "first_train_loss": _training_loss(reply, "first_loss"),
        **discrepancy_record(distances(observations.training, state)),
        "missing": observations.missing,
        "nonfinite": observations.nonfinite,
        **({"outliers": observations.outliers} if observations.outliers else {}),
        **_before_training(reply, task_type),
    }


def _total_score(task_type: TaskType, scores: Scores) -> float | None:
    """The score over all rows (clients with their models) together; None without samples."""
    values = task_type.values(task_type.named(scores.sums.sum(axis=0)), scores.examples.sum())
    return finite_or_none(float(values[task_type.names.score]))


def _before_training(reply: TrainingReply | None, task_type: TaskType) -> Record:
    """Score of the models that the cohort received, before local training; empty if the task did
    not measure it."""
    # The results are the sums over all clients, in a single row.
    if reply is None or reply.before_training is None:
        return {}
    return {
        f"{task_type.names.score}_before_training": _total_score(task_type, reply.before_training)
    }


def discrepancy_record(distance: Float[np.ndarray, "a"] | None) -> Record:
    """Discrepancy: distances from client models to their cluster models, as sum (FedGroup eq. 4),
    mean (FlexCFL eq. 3) and variance."""
    if distance is None or not len(distance) or not np.isfinite(distance).all():
        return {"discrepancy_sum": None, "discrepancy_mean": None, "discrepancy_variance": None}
    return {
        "discrepancy_sum": float(distance.sum()),
        "discrepancy_mean": float(distance.mean()),
        "discrepancy_variance": float(distance.var()),
    }


def _training_loss(reply: TrainingReply | None, name: str) -> float | None:
    """The mean of a training loss (``loss`` or ``first_loss``) over the clients that replied,
    weighted by examples; None without training or replies."""
    if reply is None:
        return None
    return weighted_mean(getattr(reply, name), np.where(reply.arrived, reply.examples, 0))
