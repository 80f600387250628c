"""What is measured after a round, as plain JSON numbers; ``null`` where something cannot be said."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.ledger import Ledger
from fedkin.core.method import UNASSIGNED, AssignedModels, State
from fedkin.core.records import Record
from fedkin.core.world import Scores, TrainingReply
from fedkin.measures.cluster_agreement import adjusted_rand_index
from fedkin.run.instrumented_world import InstrumentedWorld, distances

_SCORED = (
    *("accuracy", "partial", "loss", "bottom_decile", "median_client"),
    *("accuracy_by_cluster", "cluster_sizes", "ari", "nmi"),
)


@dataclass(frozen=True)
class EvaluationResults:
    """Test results of every reachable client that has a cluster, on that cluster's model."""

    clients: Int[np.ndarray, "c"]
    cluster: Int[np.ndarray, "c"]
    scores: Scores
    partial: bool  # some reachable client has no cluster yet
    aside: int = 0  # clients that shall have none
    detectors: list[float | None] | None = None  # accuracy of each detector on its own cluster's clients

    @property
    def client_accuracy(self) -> Float[np.ndarray, "c"]:
        """Correct / test samples of each client; NaN for a client without test samples."""
        examples = np.where(self.scores.examples > 0, self.scores.examples, np.nan)
        return np.asarray(self.scores.correct / examples, np.float64)


def score(instrumented: InstrumentedWorld, state: State, round: int) -> EvaluationResults:
    """Test all reachable clients, each on its cluster's model after the round (as FedGroup and FlexCFL do).

    The bytes this takes go on the ledger's scoring account, not on the method's.
    """
    reachable = instrumented.clients(round)
    warm = reachable[state.assignment[reachable] != UNASSIGNED]
    cluster, aside = state.assignment[warm], int(state.excluded()[reachable].sum())
    assigned = state.models_for(warm)
    with instrumented.ledger.scoring():
        scores = instrumented.evaluate(assigned.models, warm, assigned.model_index)
        detectors = detector_accuracy(instrumented, assigned, warm, cluster)
    return EvaluationResults(warm, cluster, scores, len(warm) + aside < len(reachable), aside, detectors)


def detector_accuracy(
    instrumented: InstrumentedWorld,
    assigned: AssignedModels,
    clients: Int[np.ndarray, "c"],
    cluster: Int[np.ndarray, "c"],
) -> list[float | None] | None:
    """How often each detector is right about the test samples of its own cluster's clients; None of other models."""
    if assigned.positive is None or assigned.cluster is None:
        return None
    row, detector = np.nonzero(cluster[:, None] == assigned.cluster)
    counts = instrumented.detections(assigned.models, clients[row], detector, assigned.positive[detector], split="test")
    counts = np.where(counts < 0, 0, counts)  # from a client that gave no answer
    above = counts.shape[2] // 2  # from this bin on, the detector says yes
    right = counts[:, 0, above:].sum(axis=1) + counts[:, 1, :above].sum(axis=1)
    total = np.bincount(detector, counts.sum(axis=(1, 2)), len(assigned.models))
    right = np.bincount(detector, right, len(assigned.models))
    return [ratio(int(r), int(n)) for r, n in zip(right, total, strict=True)]


def accuracy_record(
    scored: EvaluationResults | None, clusters: int, true_clusters: Int[np.ndarray, "N"] | None
) -> Record:
    """Accuracy = correct / test samples, over all clients together, by cluster, and of the worst-served clients.

    ``None`` for every entry of a round that was not scored.
    """
    if scored is None:
        return dict.fromkeys(_SCORED)
    correct, examples = scored.scores.correct, scored.scores.examples
    own = scored.client_accuracy[examples > 0]
    by_cluster = np.bincount(scored.cluster, correct, clusters), np.bincount(scored.cluster, examples, clusters)
    return {
        "accuracy": ratio(int(correct.sum()), int(examples.sum())),
        "partial": scored.partial,
        "loss": weighted_mean(scored.scores.loss, examples),
        "bottom_decile": bottom_decile(own),
        "median_client": number(float(np.median(own))) if len(own) else None,
        "accuracy_by_cluster": [ratio(int(c), int(n)) for c, n in zip(*by_cluster, strict=True)],
        "cluster_sizes": np.bincount(scored.cluster, minlength=clusters).tolist(),
        **({"excluded": scored.aside} if scored.aside else {}),
        **({} if scored.detectors is None else {"accuracy_by_detector": scored.detectors}),
        **agreement(scored, true_clusters),
    }


def agreement(scored: EvaluationResults, true_clusters: Int[np.ndarray, "N"] | None) -> Record:
    """Adjusted Rand index and normalised mutual information of the clusters with the true ones."""
    from sklearn.metrics import normalized_mutual_info_score

    if true_clusters is None or not len(scored.clients):
        return {"ari": None, "nmi": None}
    known = true_clusters[scored.clients]
    return {
        "ari": float(adjusted_rand_index(known, scored.cluster)),
        "nmi": float(normalized_mutual_info_score(known, scored.cluster)),
    }


def training_record(instrumented: InstrumentedWorld, state: State) -> Record:
    """Training loss of the round's cohort (last and first local epoch, weighted by examples) and its discrepancy."""
    reply = instrumented.training.reply if instrumented.training else None
    return {
        "train_loss": _training_loss(reply, "loss"),
        "first_train_loss": _training_loss(reply, "first_loss"),
        **discrepancy_record(distances(instrumented.training, state)),
        "missing": instrumented.missing,
        "nonfinite": instrumented.nonfinite,
        **_before_training(reply),
    }


def _before_training(reply: TrainingReply | None) -> Record:
    """Where test results came with the training: accuracy of the models that the cohort was sent, before training."""
    if reply is None or reply.before_training is None:
        return {}
    return {
        "accuracy_before_training": ratio(int(reply.before_training.correct[0]), int(reply.before_training.examples[0]))
    }


def discrepancy_record(distance: Float[np.ndarray, "a"] | None) -> Record:
    """Distances from local solutions to cluster models: sum (FedGroup eq. 4), mean (FlexCFL eq. 3) and variance."""
    if distance is None or not len(distance) or not np.isfinite(distance).all():
        return {"discrepancy_sum": None, "discrepancy_mean": None, "discrepancy_variance": None}
    return {
        "discrepancy_sum": float(distance.sum()),
        "discrepancy_mean": float(distance.mean()),
        "discrepancy_variance": float(distance.var()),
    }


def ledger_record(ledger: Ledger) -> Record:
    """Bytes so far: the method's own in all, and [down, up] of every verb (``scoring.*`` is the measurement's)."""
    down, up = ledger.total()
    verbs = sorted(ledger.down | ledger.up)
    return {
        "bytes_down": down,
        "bytes_up": up,
        "bytes_by_operation": {verb: [ledger.down.get(verb, 0), ledger.up.get(verb, 0)] for verb in verbs},
    }


def bottom_decile(accuracy: Float[np.ndarray, "c"]) -> float | None:
    """Mean accuracy of the bottom 10% of clients (at least one)."""
    if not len(accuracy):
        return None
    return float(np.sort(accuracy)[: math.ceil(len(accuracy) / 10)].mean())


def ratio(part: int, whole: int) -> float | None:
    """part / whole, None of nothing."""
    return part / whole if whole else None


def weighted_mean(value: Float[np.ndarray, "n"], weight: Int[np.ndarray, "n"]) -> float | None:
    """Mean weighted by examples; None where there are none, or where it is not finite."""
    total = int(weight.sum())
    return number(float(np.sum(np.where(weight > 0, value, 0) * weight)) / total) if total else None


def number(value: float) -> float | None:
    """The value, or None if it is not finite: JSON has no word for it."""
    return value if math.isfinite(value) else None


def _training_loss(reply: TrainingReply | None, model_index: str) -> float | None:
    if reply is None:
        return None
    return weighted_mean(getattr(reply, model_index), np.where(reply.arrived, reply.examples, 0))
