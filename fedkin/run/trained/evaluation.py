"""Evaluation of a finished run: several measures by client and cluster, fairness, and local
fine-tuning.

Shapes: n clients, P parameters, C classes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.method import UNASSIGNED
from fedkin.core.records import Record
from fedkin.core.storage import check_output, storage_errors, user_path, write_atomic
from fedkin.core.strict_json import json_text, json_value
from fedkin.data.federated import FederatedData
from fedkin.export.predictor import Decisions
from fedkin.measures.classification import MEASURES, classification_measures
from fedkin.measures.complete_rounds import first_to_reach
from fedkin.measures.fairness import fairness_measures
from fedkin.measures.scores import OTHER_MEASURES
from fedkin.run.trained.client_sums import client_sums
from fedkin.run.trained.fine_tuning import best_epochs, tuned_predictors
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.number_evaluation import (
    fine_tuned_numbers,
    finite_mean,
    measured,
    number_tables,
)
from fedkin.task_types.classification import CLASSIFICATION

if TYPE_CHECKING:
    import pandas as pd

DIGEST = "data_digest"  # key in a summary: digest of external data


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of an evaluation.

    Attributes:
        split: the evaluated split.
        clients: a DataFrame with a row for each client that has a model and samples: client, name,
            cluster, samples, the measures of ``MEASURES`` (of numbers, those of the task type), and
            ``fine_tuned_accuracy`` if requested.
        clusters: a DataFrame with the same measures over all samples of each cluster's clients, and
            its number of clients.
        summary: the measures over all samples, their means over clients (``mean_...``), fairness
            across clients, and the costs of reaching the target. For external data also their
            digest.
        name: for external data, their name and the cluster of the predicting model; empty for the
            run's own data.
    """

    split: str
    clients: pd.DataFrame
    clusters: pd.DataFrame
    summary: dict[str, Any]
    name: str = ""

    def __repr__(self) -> str:
        clients = len(self.clients)
        if "accuracy" not in self.summary:
            scores = [
                f"{name} {self.summary[name]}" for name in OTHER_MEASURES if name in self.summary
            ]
            return f"Evaluation({self.split}: {clients} clients, {', '.join(scores)})"
        accuracy, f1 = (self.summary[name] for name in ("accuracy", "macro_f1"))
        return f"Evaluation({self.split}: {clients} clients, accuracy {accuracy}, macro F1 {f1})"

    def save(self, folder: str | Path) -> list[Path]:
        """Write the tables of clients and clusters and the summary into a folder.

        The files are ``evaluation-SPLIT.csv``, ``evaluation-SPLIT-clusters.csv`` and
        ``evaluation-SPLIT.json``; they replace earlier files. For external data the names begin
        with ``evaluation-DATA-SPLIT``, or ``evaluation-DATA-cluster-K-SPLIT`` if one cluster's
        model predicted all samples.

        Args:
            folder: the folder, created if missing.

        Returns:
            The paths of the files.

        Raises:
            StorageError: the folder cannot be written, or has an evaluation of different data with
                the same name, or a file of that name from another program.
        """
        folder = user_path(folder)
        stem = folder / "-".join(part for part in ("evaluation", self.name, self.split) if part)
        _refuse_others(Path(f"{stem}.json"), self.summary.get(DIGEST))
        files = {
            Path(f"{stem}.csv"): self.clients.to_csv(index=False),
            Path(f"{stem}-clusters.csv"): self.clusters.to_csv(index=False),
            Path(f"{stem}.json"): json_text(self.summary, indent=2) + "\n",
        }
        for path, text in files.items():
            # Only the first column or key is the same in every file; the others depend on options.
            first_name = re.match(r"[^,:]*[,:]", text)
            check_output(path, begins=first_name[0] if first_name else text)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_atomic(path, text)
        return list(files)


def _refuse_others(path: Path, digest: str | None) -> None:
    """Raise StorageError rather than overwrite the evaluation of different data with the same
    name."""
    try:
        before = json.loads(path.read_text()).get(DIGEST)
    except (OSError, ValueError, AttributeError):  # no file, or not readable
        return
    if before not in (None, digest):
        raise StorageError(
            f"{path} is an evaluation of other data with the same name; write to another folder "
            "(--out), rename the data, or remove the file"
        )


def evaluate(
    trained: TrainedModels,
    records: Sequence[Record],
    seconds: Mapping[int, float],
    target: float | None = None,
    split: str = "test",
    fine_tune_epochs: int | None = None,
) -> Evaluation:
    """Evaluate the models of a run on its own data.

    Args:
        trained: the run's trained models.
        records: records of the run's rounds.
        seconds: wall-clock time until the end of each round, as far as known.
        target: target accuracy, whose costs are reported; None: no target.
        split: ``test``, ``train`` or ``validation``.
        fine_tune_epochs: E, the largest number of epochs of local fine-tuning; None: no
            fine-tuning.

    Raises:
        DataError: the run has real clients, or the data do not have this split.
        ConfigError: the number of epochs is below 1.
        MethodError: the models are detectors, which cannot be fine-tuned.
        ModelError: a model's scores are NaN or infinite; the message names the model.
    """
    data = trained.world().data
    part = data.part(split)
    assigned = np.flatnonzero((trained.state.assignment != UNASSIGNED) & (part.sizes > 0))
    reached = _to_target(records, seconds, target, data.scored_split)
    if data.task_type.name != CLASSIFICATION.name:
        return _evaluated_numbers(
            trained, data, split=split, clients=assigned, most=fine_tune_epochs, reached=reached
        )
    decisions = dict(_decisions(trained, data, split, assigned))
    labels = {client: data.y[part[client]] for client in decisions}
    facts = {client: _facts(trained, client) for client in sorted(decisions)}
    without = int((trained.state.assignment == UNASSIGNED).sum())
    table, clusters, summary = tables(
        trained.method, split, without=without, facts=facts, labels=labels, decisions=decisions
    )
    more = (
        {}
        if fine_tune_epochs is None
        else _fine_tuned(trained, data, split=split, clients=assigned, most=fine_tune_epochs)
    )
    if more:
        table["fine_tuned_accuracy"] = more["accuracy"]
        summary |= {"fine_tune_epochs": more["epochs"], **more["summary"]}
    summary |= reached
    return Evaluation(split, table, clusters, json_value(summary))


def _evaluated_numbers(
    trained: TrainedModels,
    data: FederatedData,
    *,
    split: str,
    clients: Int[np.ndarray, "n"],
    most: int | None,
    reached: dict[str, Any],
) -> Evaluation:
    """The evaluation of a run whose labels are numbers, or times of patients.

    Args:
        trained: the run's trained models.
        data: the run's data.
        split: the evaluated split.
        clients: clients with a model and samples.
        most: the largest number of epochs of fine-tuning; None: no fine-tuning.
        reached: the costs of reaching the target.
    """
    sums = {}
    for group in _groups(trained, clients):
        predictor = trained.of_client(int(group[0]))
        for client in group:
            sums[int(client)] = client_sums(predictor, data, int(client), [split])
    facts = {client: _facts(trained, client) for client in sorted(sums)}
    without = int((trained.state.assignment == UNASSIGNED).sum())
    table, clusters, summary = number_tables(
        data.task_type, trained.method, split, without=without, facts=facts, sums=sums
    )
    if most is not None:
        if len(clients):
            trained.tunable(trained.of_client(int(clients[0])), _checked_epochs(most))
        epochs, tuned = fine_tuned_numbers(trained, data, split, clients=clients, most=most)
        score = data.task_type.names.score
        table[f"fine_tuned_{score}"] = [measured(data.task_type, [one])[score] for one in tuned]
        pooled = measured(data.task_type, tuned)[score]
        summary |= {"fine_tune_epochs": epochs, f"fine_tuned_{score}": pooled}
    summary |= reached
    return Evaluation(split, table, clusters, json_value(summary))


def tables(
    method: str,
    split: str,
    without: int,
    facts: Mapping[int, dict[str, Any]],
    labels: dict[int, np.ndarray],
    decisions: dict[int, Decisions],
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """The table of clients, the table of clusters, and the summary of an evaluation.

    Args:
        method: the method's name.
        split: the evaluated split.
        without: number of clients without a cluster.
        facts: number, name and cluster of each client.
        labels: true labels of each client's samples.
        decisions: predicted classes and probabilities of each client's samples.
    """
    import pandas as pd

    rows = [_client_row(own, labels[client], decisions[client]) for client, own in facts.items()]
    table = pd.DataFrame(rows)
    groups = (
        {} if not rows else {k: list(own) for k, own in table.groupby("cluster").groups.items()}
    )
    numbers = list(facts)
    pooled = {
        k: _pooled([numbers[row] for row in own], labels, decisions) for k, own in groups.items()
    }
    clusters = pd.DataFrame([{"cluster": k, **own} for k, own in pooled.items()])
    summary = {
        "method": method,
        "split": split,
        "without_cluster": without,
        **_pooled(numbers, labels, decisions),
        **{f"mean_{name}": finite_mean(table[name].to_numpy(float)) for name in MEASURES if rows},
        **fairness_measures(table["accuracy"].to_numpy(float) if rows else np.array([])),
    }
    return table, clusters, json_value(summary)


def _decisions(
    trained: TrainedModels, data: FederatedData, split: str, clients: Int[np.ndarray, "n"]
) -> Iterator[tuple[int, Decisions]]:
    """Yield each client and the predictions of its model for its samples. Clients of a cluster are
    predicted together."""
    part = data.part(split)
    for group in _groups(trained, clients):
        rows = part.select(group)
        decisions = trained.of_client(int(group[0])).decide(data.x[rows.rows], prepared=True)
        for number, client in enumerate(group):
            own = slice(rows.offsets[number], rows.offsets[number + 1])
            yield int(client), Decisions(decisions.classes[own], decisions.probability[own])


def _groups(
    trained: TrainedModels, clients: Int[np.ndarray, "n"]
) -> Sequence[Int[np.ndarray, "_"]]:
    """Clients that share a model: those of each cluster, or each client by itself."""
    assignment = trained.state.assignment
    if trained.personal:
        return [np.array([client]) for client in clients]
    return [clients[assignment[clients] == k] for k in np.unique(assignment[clients])]


def _facts(trained: TrainedModels, client: int) -> dict[str, Any]:
    """The first columns of a client's row in the table of clients: number, name and cluster."""
    return {
        "client": client,
        "name": trained.client_name(client),
        "cluster": int(trained.state.assignment[client]),
    }


def _client_row(facts: dict[str, Any], y: np.ndarray, decisions: Decisions) -> dict[str, Any]:
    """A client's row in the table of clients: its facts, number of samples, and measures."""
    return {
        **facts,
        "samples": len(y),
        **classification_measures(y, decisions.probability, decisions.classes),
    }


def _pooled(
    clients: Sequence[int], labels: dict[int, np.ndarray], decisions: dict[int, Decisions]
) -> dict[str, Any]:
    """The measures of an evaluation over all samples of the given clients together."""
    if not clients:
        return {"clients": 0, "samples": 0, **dict.fromkeys(MEASURES, math.nan)}
    y = np.concatenate([labels[client] for client in clients])
    classes, probability = (
        np.concatenate(parts) for parts in zip(*(decisions[c] for c in clients), strict=True)
    )
    return {
        "clients": len(clients),
        "samples": len(y),
        **classification_measures(y, probability, classes),
    }


def _fine_tuned(
    trained: TrainedModels,
    data: FederatedData,
    split: str,
    clients: Int[np.ndarray, "n"],
    most: int,
) -> dict[str, Any]:
    """Accuracy of each client after local fine-tuning of its model. All clients train for the same
    number of epochs: the best number from 0 to ``most`` on validation samples, or ``most`` without
    validation samples."""
    _checked_epochs(most)
    # All models are of the same kind, so one of them shows whether they can be fine-tuned.
    if len(clients):
        trained.tunable(trained.of_client(int(clients[0])), most)
    chosen = most
    if data.validation is not None and split != "validation":
        correct = [
            float(_correct(trained, data, split="validation", clients=clients, epochs=epochs).sum())
            for epochs in range(most + 1)
        ]
        chosen = best_epochs(correct, sign=1)
    correct = _correct(trained, data, split=split, clients=clients, epochs=chosen)
    sizes = data.part(split).sizes[clients]
    accuracy = correct / sizes
    overall = float(correct.sum() / sizes.sum()) if len(clients) else math.nan
    fairness = {f"fine_tuned_{name}": value for name, value in fairness_measures(accuracy).items()}
    return {
        "accuracy": accuracy,
        "epochs": chosen,
        "summary": {"fine_tuned_accuracy": overall, **fairness},
    }


def _checked_epochs(most: int) -> int:
    """The largest number of epochs of fine-tuning. Raises ConfigError if it is below 1."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise ConfigError(f"fine_tune_epochs must be an integer of at least 1, got {most!r}")
    return most


def _correct(
    trained: TrainedModels,
    data: FederatedData,
    split: str,
    clients: Int[np.ndarray, "n"],
    epochs: int,
) -> Int[np.ndarray, "n"]:
    """Number of correct predictions of each client's model after ``epochs`` epochs on the client's
    training samples."""
    part = data.part(split)
    correct = []
    for client, tuned in tuned_predictors(trained, clients, epochs):
        rows = part[client]
        hits = tuned(data.x[rows]).argmax(axis=1) == data.y[rows] if len(rows) else np.zeros(0)
        correct.append(int(hits.sum()))
    return np.array(correct, np.int64)


def _to_target(
    records: Sequence[Record], seconds: Mapping[int, float], target: float | None, split: str
) -> dict[str, Any]:
    """Rounds, bytes and seconds until the first complete round that reaches the target score (such
    as the accuracy), which is measured on ``split``. The values are None if no round reaches it."""
    if target is None:
        return {}
    first = first_to_reach(records, target)
    facts = {"target": target, "target_split": split}
    if first is None:
        return {
            **facts,
            "rounds_to_target": None,
            "bytes_to_target": None,
            "seconds_to_target": None,
        }
    return {
        **facts,
        "rounds_to_target": first["round"],
        "bytes_to_target": first["bytes_down"] + first["bytes_up"],
        "seconds_to_target": seconds.get(first["round"]),
    }
