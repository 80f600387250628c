"""Metrics of a round as plain JSON values: accuracy, training loss and discrepancy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, AssignedModels, State
from fedkin.core.randomness import Stream
from fedkin.core.strict_json import finite_or_none
from fedkin.core.task import Task
from fedkin.core.world import World, known_clients, scored_clients
from fedkin.measures.scores import ScoreNames
from fedkin.methods.decentralized import PeerState
from fedkin.options.with_options import evaluation_task
from fedkin.run.metrics.evaluation_sample import draw_sample
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.detections import Detections
from fedkin.tasks.evaluate import Evaluate, Scores, evaluate


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

    @property
    def defined(self) -> Bool[np.ndarray, "c"]:
        """The clients whose score is defined. A client without test samples has none, and a client
        whose seasonal error is unknown has no MASE."""
        sums = self.task_type.named(self.scores.sums)[self.task_type.score_sum]
        # The score of a model that has diverged is defined, but not finite.
        without = np.isnan(self.client_scores) & np.isfinite(sums)
        return (self.scores.examples > 0) & ~without

    def totals(self) -> dict[str, float | None]:
        """All measures of the task type over all evaluated clients together, by name; None where
        undefined."""
        sums = self.task_type.named(self.scores.sums.sum(axis=0))
        values = self.task_type.values(sums, self.scores.examples.sum())
        return {name: finite_or_none(float(value)) for name, value in values.items()}

    def of_clusters(self, clusters: int) -> list[float | None]:
        """The score of the clients of each cluster together; None for a cluster without samples."""
        examples = np.bincount(self.cluster, self.scores.examples, clusters)
        sums = {
            name: np.bincount(self.cluster, column, clusters)
            for name, column in self.task_type.named(self.scores.sums).items()
        }
        values = self.task_type.values(sums, examples)[self.names.score]
        return [finite_or_none(float(value)) for value in values]


def score_values(task_type: TaskType, scores: Scores) -> dict[str, Float[np.ndarray, "n"]]:
    """The measures of each row (a client with its model), by name; NaN where undefined."""
    return task_type.values(task_type.named(scores.sums), scores.examples)


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
    reachable = scored_clients(world, round)
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
