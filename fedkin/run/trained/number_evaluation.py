"""Evaluation of a finished run whose labels are numbers: the measures of the task type by client,
by cluster and over all samples, and local fine-tuning.

Shapes: n clients, B samples, C outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.data.federated import FederatedData
from fedkin.measures.fairness import worst_decile
from fedkin.run.trained.client_sums import ClientSums, pairs_of_client, sums_of
from fedkin.run.trained.fine_tuning import Tunable, best_epochs, tuned_predictors
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

if TYPE_CHECKING:
    import pandas as pd


class NumberTables(NamedTuple):
    """The tables of clients and clusters, and the summary of an evaluation."""

    clients: pd.DataFrame
    clusters: pd.DataFrame
    summary: dict[str, Any]


def measured(task_type: TaskType, parts: Sequence[ClientSums]) -> dict[str, float]:
    """The measures over all samples of some clients together; NaN where undefined."""
    samples = sum(part.samples for part in parts)
    totals = {name: sum(part.sums[name] for part in parts) for name in task_type.sums}
    return {name: float(value) for name, value in task_type.values(totals, samples).items()}


def number_tables(
    task_type: TaskType,
    method: str,
    split: str,
    without: int,
    facts: Mapping[int, dict[str, Any]],
    sums: Mapping[int, ClientSums],
) -> NumberTables:
    """The tables of an evaluation.

    Args:
        task_type: what the labels are, with statistics.
        method: the method's name.
        split: the evaluated split.
        without: number of clients without a cluster.
        facts: number, name and cluster of each client.
        sums: the sums of each client.
    """
    import pandas as pd

    clients = pd.DataFrame(
        [
            {**own, "samples": sums[client].samples, **measured(task_type, [sums[client]])}
            for client, own in facts.items()
        ]
    )
    by_cluster: dict[int, list[ClientSums]] = {}
    for client, own in facts.items():
        by_cluster.setdefault(own["cluster"], []).append(sums[client])
    clusters = pd.DataFrame(
        [
            {"cluster": cluster, **_pooled(task_type, parts)}
            for cluster, parts in sorted(by_cluster.items())
        ]
    )
    summary = {
        "method": method,
        "split": split,
        "without_cluster": without,
        **_pooled(task_type, list(sums.values())),
        **_over_clients(task_type, clients),
    }
    return NumberTables(clients, clusters, summary)


def _pooled(task_type: TaskType, parts: Sequence[ClientSums]) -> dict[str, Any]:
    """Numbers of clients and samples, and the measures over all samples together."""
    samples = sum(part.samples for part in parts)
    return {"clients": len(parts), "samples": samples, **measured(task_type, parts)}


def _over_clients(task_type: TaskType, clients: pd.DataFrame) -> dict[str, Any]:
    """The mean of each measure over clients, and the median and worst 10% of clients by the first
    one. Clients with few samples are not ranked."""
    if not len(clients):
        return {}
    names = task_type.names
    means = {
        f"mean_{name}": finite_mean(clients[name].to_numpy(float)) for name in task_type.measures
    }
    scores = clients[names.score].to_numpy(float)
    enough = clients["samples"].to_numpy() >= task_type.least_ranked
    ranked = scores[enough & np.isfinite(scores)]
    median = float(np.median(ranked)) if len(ranked) else None
    worst = worst_decile(ranked, task_type.measure.sign)
    return {**means, names.median: median, names.worst: worst, "ranked_clients": len(ranked)}


def finite_mean(values: Float[np.ndarray, "n"]) -> float:
    """The mean over clients for which a measure is defined; NaN if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def fine_tuned_numbers(
    trained: Tunable,
    data: FederatedData,
    split: str,
    clients: Int[np.ndarray, "n"],
    most: int,
) -> tuple[int, list[ClientSums]]:
    """The sums of each client after local fine-tuning of its model. All clients train for the same
    number of epochs.

    Args:
        trained: the models.
        data: the run's data.
        split: the evaluated split.
        clients: the clients.
        most: the largest number of epochs. With validation samples, the best number from 0 up is
            chosen on them; without, it is this one.
    """
    task_type = data.task_type
    chosen = most
    if data.validation is not None and split != "validation":
        scores = []
        for epochs in range(most + 1):
            sums = _tuned_sums(trained, data, split="validation", clients=clients, epochs=epochs)
            scores.append(measured(task_type, sums)[task_type.names.score])
        chosen = best_epochs(scores, task_type.measure.sign)
    return chosen, _tuned_sums(trained, data, split=split, clients=clients, epochs=chosen)


def _tuned_sums(
    trained: Tunable,
    data: FederatedData,
    split: str,
    clients: Int[np.ndarray, "n"],
    epochs: int,
) -> list[ClientSums]:
    """The sums of each client after ``epochs`` epochs on the client's training samples."""
    found = []
    for client, tuned in tuned_predictors(trained, clients, epochs):
        if isinstance(data.task_type, Survival):
            found.append(pairs_of_client(tuned, data, client, [split]))
            continue
        rows = data.part(split)[client]
        # Local training may have diverged. The scores are then NaN, and these epochs not the best.
        found.append(sums_of(data.task_type, tuned.scores_of(data.x[rows]), data.y[rows]))
    return found
