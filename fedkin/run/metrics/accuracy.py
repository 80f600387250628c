"""Metrics of a round as plain JSON values: accuracy, training loss and discrepancy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, AssignedModels, State
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.task import Task
from fedkin.core.world import World, known_clients
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.measures.fairness import worst_decile
from fedkin.measures.measure import Measure, ScoredClients
from fedkin.measures.scores import ACCURACY, ScoreNames
from fedkin.methods.decentralized import PeerState
from fedkin.options.with_options import evaluation_task
from fedkin.run.metrics.evaluation_sample import draw_sample, estimate
from fedkin.run.metrics.number_record import number_record
from fedkin.run.metrics.observations import Observations, distances
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import Evaluate, Scores, evaluate
from fedkin.tasks.train import TrainingReply


def _scored_names(names: ScoreNames) -> tuple[str, ...]:
    """The names of a record's entries about scores, in their order."""
    overall = (names.score, "partial", "loss", names.worst, names.median)
    return (*overall, names.by_cluster, "cluster_sizes", "ari", "nmi")


@dataclass(frozen=True)
class GlobalModel:
    """Test results of the global model (the mean of all cluster models, which no client uses) for
    each client, and its distance to each cluster model."""

    scores: Scores
    distance: Float[np.ndarray, "K"]


@dataclass(frozen=True)
class EvaluationResults:
    """Test results of the reachable clients with a cluster, each on its cluster's model.

    Attributes:
        clients: ids of the evaluated clients.
        cluster: cluster of each evaluated client.
        scores: scores of each evaluated client.
        partial: whether some reachable client has no cluster yet, or some client with a cluster was
            not evaluated.
        excluded: number of clients that are permanently without a cluster.
        detectors: for ATHENA-FL, the accuracy of each detector on the clients of its cluster.
        global_model: results of the global model on the same clients, if requested.
        sizes: cluster sizes, if only a sample of the clients was evaluated.
        unreachable: number of unreachable clients with a cluster, if clients are real.
        unanswered: number of clients in ``clients`` that did not reply.
        members: number of clients that the server has ever accepted, if clients are real.
        task_type: what the labels are, which defines the scores.
    """

    clients: Int[np.ndarray, "c"]
    cluster: Int[np.ndarray, "c"]
    scores: Scores
    partial: bool
    excluded: int = 0
    detectors: list[float | None] | None = None
    global_model: GlobalModel | None = None
    sizes: Int[np.ndarray, "K"] | None = None
    unreachable: int = 0
    unanswered: int = 0
    members: int | None = None
    task_type: TaskType = CLASSIFICATION

    @property
    def away(self) -> int:
        """Number of clients with a cluster that were unreachable or did not reply."""
        return self.unreachable + self.unanswered

    @property
    def names(self) -> ScoreNames:
        """The names of the score in records."""
        return self.task_type.names

    @property
    def client_scores(self) -> Float[np.ndarray, "c"]:
        """The score of each client, such as its accuracy (correct / test samples); NaN for a client
        without test samples."""
        return score_values(self.task_type, self.scores)[self.names.score]

    def totals(self) -> dict[str, float | None]:
        """All measures of the task type over all evaluated clients together, by name; None where
        undefined."""
        sums = dict(zip(self.task_type.sums, self.scores.sums.sum(axis=0), strict=True))
        values = self.task_type.values(sums, self.scores.examples.sum())
        return {name: finite_or_none(float(value)) for name, value in values.items()}

    def of_clusters(self, clusters: int) -> list[float | None]:
        """The score of the clients of each cluster together; None for a cluster without samples."""
        examples = np.bincount(self.cluster, self.scores.examples, clusters)
        sums = {
            name: np.bincount(self.cluster, column, clusters)
            for name, column in zip(self.task_type.sums, self.scores.sums.T, strict=True)
        }
        values = self.task_type.values(sums, examples)[self.names.score]
        return [finite_or_none(float(value)) for value in values]


def score_values(task_type: TaskType, scores: Scores) -> dict[str, Float[np.ndarray, "n"]]:
    """The measures of each row (a client with its model), by name; NaN where undefined."""
    sums = dict(zip(task_type.sums, scores.sums.T, strict=True))
    return task_type.values(sums, scores.examples)


def task_type_of(world: World) -> TaskType:
    """What the labels of a world's clients are: classes, unless the world says otherwise."""
    return getattr(world, "task_type", CLASSIFICATION)


def score(
    world: World,
    state: State,
    round: int,
    global_model: bool = False,
    split: str = "test",
    sample: tuple[int, Stream] | None = None,
) -> EvaluationResults:
    """Evaluate all reachable clients with a cluster, each on its cluster's model after the round
    (as FedGroup and FlexCFL do). If clients keep a part of their models, the state has a special
    evaluation task, which is used instead.

    The ledger (bytes by operation) counts this traffic as evaluation, not as the method's traffic.

    Args:
        world: the clients.
        state: the method's state after the round.
        round: the round's number.
        global_model: whether to evaluate the mean of the cluster models as well.
        split: the evaluation split: ``test``, or ``validation`` if the data have it.
        sample: the number of clients to evaluate, and the stream of random numbers that draws them;
            None: all clients.

    Raises:
        MethodError: the state's evaluation task does not support ``split``, and ``split`` is not
            ``test``.
    """
    reachable = world.clients(round)
    assigned_clients = reachable[state.assignment[reachable] != UNASSIGNED]
    cluster = state.assignment[assigned_clients]
    excluded = int(state.excluded()[reachable].sum())
    unassigned = len(assigned_clients) + excluded < len(reachable)
    known = known_clients(world)
    unreachable = 0 if known is None else len(_unreachable(known, reachable, state))
    sizes = None
    # ``sizes`` stays None if all clients are evaluated.
    if sample is not None and len(assigned_clients) > sample[0]:
        places, sizes = draw_sample(cluster, sample[0], sample[1].rng())
        assigned_clients = assigned_clients[places]
        cluster = cluster[places]
    assigned = state.models_for(assigned_clients)
    own = evaluation_task(state, world.spec, assigned_clients)
    with world.ledger.scoring():
        # The mean is evaluated before the cluster models, since a real client stores the model that
        # it evaluated last.
        mean = score_global_model(world, state, assigned_clients, split) if global_model else None
        by_model = Evaluate(
            assigned.models, np.asarray(assigned.model_index, np.int64), split=split
        )
        reply = world.run(by_model if own is None else _on_split(own, split), assigned_clients)
        detectors = detector_accuracy(
            world, assigned, clients=assigned_clients, cluster=cluster, split=split
        )
    unanswered = int((~reply.arrived).sum())
    return EvaluationResults(
        clients=assigned_clients,
        cluster=cluster,
        scores=Scores.of(reply),
        partial=unassigned or unreachable + unanswered > 0,
        excluded=excluded,
        detectors=detectors,
        global_model=mean,
        sizes=sizes,
        unreachable=unreachable,
        unanswered=unanswered,
        members=None if known is None else len(known),
        task_type=task_type_of(world),
    )


def _unreachable(
    known: Int[np.ndarray, "c"], reachable: Int[np.ndarray, "r"], state: State
) -> Int[np.ndarray, "a"]:
    """The clients that have a cluster and cannot be reached, among the clients that the server has
    ever accepted (``known``)."""
    missing = np.setdiff1d(known, reachable)
    return missing[state.assignment[missing] != UNASSIGNED]


def _on_split(own: Task, split: str) -> Task:
    """A state's evaluation task, changed to evaluate the given split. Raises MethodError if the
    task supports only ``test`` (it has no field ``split``)."""
    if split == "test":
        return own
    if not hasattr(own, "split"):
        raise MethodError(
            f"task {own.name} evaluates test samples only, but these data have a "
            'validation split; add a field split: str = "test" to the task, or '
            "remove the validation split"
        )
    return replace(own, split=split)


def score_global_model(
    world: World, state: State, clients: Int[np.ndarray, "c"], split: str = "test"
) -> GlobalModel | None:
    """Evaluate the global model of FedGroup and FlexCFL: the unweighted mean of all cluster models.
    It is computed only for this measurement, and no client uses it.

    FlexCFL's code omits clusters without clients in the round's cohort. Its paper includes them, as
    this function does.

    Args:
        world: the clients.
        state: the method's state after the round.
        clients: ids of clients with a cluster.
        split: the evaluation split.

    Returns:
        Test results. None if there are no cluster models to average: the method has one model,
        peers or detectors, or its models are partly on clients.
    """
    assigned = state.models_for(clients)
    of_clusters = not isinstance(state, PeerState) and assigned.positive is None
    if (
        not of_clusters
        or len(state.models) < 2
        or evaluation_task(state, world.spec, clients) is not None
    ):
        return None
    mean, distance = mean_and_distances(state.models)
    scores = evaluate(world, mean[None], clients, np.zeros(len(clients), np.int64), split=split)
    return GlobalModel(scores, distance)


def mean_and_distances(
    models: Float[np.ndarray, "K P"],
) -> tuple[Float[np.ndarray, "P"], Float[np.ndarray, "K"]]:
    """The unweighted mean of the models, and each model's Euclidean distance to it."""
    mean = models.mean(axis=0, dtype=np.float64)
    return mean.astype(models.dtype), np.linalg.norm(models - mean, axis=1)


def detector_accuracy(
    world: World,
    assigned: AssignedModels,
    clients: Int[np.ndarray, "c"],
    cluster: Int[np.ndarray, "c"],
    split: str = "test",
) -> list[float | None] | None:
    """Accuracy of each detector (a model that separates one class from all others) on the evaluated
    samples of its cluster's clients; None if models are not detectors.

    Args:
        world: the clients.
        assigned: the models of the given clients, which may be detectors.
        clients: ids of clients with a cluster.
        cluster: cluster of each client.
        split: the evaluation split.
    """
    if assigned.positive is None or assigned.cluster is None:
        return None
    # Each client of a cluster gets a row for each of the cluster's detectors.
    row, detector = np.nonzero(cluster[:, None] == assigned.cluster)
    task = Detections(assigned.models, detector, assigned.positive[detector], split=split)
    # A client that did not reply has -1.
    counts = np.maximum(world.run(task, clients[row]).counts, 0)
    above = counts.shape[2] // 2  # first bin of positive decisions
    correct = counts[:, 0, above:].sum(axis=1) + counts[:, 1, :above].sum(axis=1)
    total = np.bincount(detector, counts.sum(axis=(1, 2)), len(assigned.models))
    correct = np.bincount(detector, correct, len(assigned.models))
    return [ratio(int(r), int(n)) for r, n in zip(correct, total, strict=True)]


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
    known = examples > 0
    own = scored.client_scores[known]
    sampled = None if scored.sizes is None else estimated_totals(scored)
    totals = scored.totals() if sampled is None else sampled.values
    record = named | {
        names.score: totals[names.score],
        "partial": scored.partial,
        "loss": weighted_mean(scored.scores.loss, examples),
        names.worst: worst_decile(own[_ranked(task_type, examples[known])], task_type.measure.sign),
        names.median: finite_or_none(float(np.median(own))) if len(own) else None,
        names.by_cluster: scored.of_clusters(clusters),
        "cluster_sizes": _sizes(scored, clusters),
    }
    record |= {name: totals[name] for name in task_type.measures[1:]}
    if names.score != ACCURACY:
        ranked = _ranked(task_type, examples)
        record |= number_record(task_type, scored.scores, ranked, whole=scored.sizes is None)
    if sampled is not None:
        record |= {"evaluated": len(own), names.interval: [sampled.low, sampled.high]}
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
    low: float
    high: float


def estimated_totals(scored: EvaluationResults) -> EstimatedTotals | None:
    """Estimate the measures over all clients from the clients that were evaluated; None without
    test samples."""
    assert scored.sizes is not None
    task_type = scored.task_type
    estimates = {}
    for name, column in zip(task_type.sums, scored.scores.sums.T, strict=True):
        one = estimate(column, scored.scores.examples, scored.cluster, scored.sizes)
        if one is None:
            return None
        estimates[name] = one
    one_sample = np.int64(1)
    means = {name: np.float64(one.mean) for name, one in estimates.items()}
    values = task_type.values(means, one_sample)
    first = task_type.sums[0]  # the score is a monotone function of the first sum
    bounds = [
        float(task_type.values(means | {first: np.float64(end)}, one_sample)[task_type.names.score])
        for end in (estimates[first].low, min(estimates[first].high, task_type.highest))
    ]
    return EstimatedTotals(
        values={name: finite_or_none(float(value)) for name, value in values.items()},
        low=min(bounds),
        high=max(bounds),
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
    clients = ScoredClients(
        round=round,
        clients=scored.clients[known],
        cluster=scored.cluster[known],
        examples=scored.scores.examples[known],
        correct=scored.scores.correct[known],
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
    examples), discrepancy, and missing or excluded replies."""
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
    sums = dict(zip(task_type.sums, scores.sums.sum(axis=0), strict=True))
    values = task_type.values(sums, scores.examples.sum())
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


def ratio(part: int, whole: int) -> float | None:
    """part / whole; None if ``whole`` is 0."""
    return part / whole if whole else None


def weighted_mean(value: Float[np.ndarray, "n"], weight: Int[np.ndarray, "n"]) -> float | None:
    """Mean of values weighted by examples; None if there are no examples or the mean is not
    finite."""
    total = int(weight.sum())
    return (
        finite_or_none(float(np.sum(np.where(weight > 0, value, 0) * weight)) / total)
        if total
        else None
    )


def finite_or_none(value: float) -> float | None:
    """The value, or None if it is not finite, since JSON has no NaN and infinity."""
    return value if math.isfinite(value) else None


def _training_loss(reply: TrainingReply | None, name: str) -> float | None:
    """The mean of a training loss (``loss`` or ``first_loss``) over the clients that replied,
    weighted by examples; None without training or replies."""
    if reply is None:
        return None
    return weighted_mean(getattr(reply, name), np.where(reply.arrived, reply.examples, 0))
