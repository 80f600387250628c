"""Placement of several new clients from a file: a table with the cluster of each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED
from fedkin.core.requirements import compared_quantity
from fedkin.data.federated import FederatedData
from fedkin.export.reader import Export
from fedkin.run.trained.external_evaluation import matched_features, matched_labels
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.placement import newcomer_policy, place_rows
from fedkin.run.trained.unlabelled_clients import UnlabelledClients
from fedkin.task_types.classification import task_type_of_samples

# What decides about a newcomer, by a method's option ``newcomers``.
_POLICIES = {
    "direction": "nearest direction of updates",
    "similarity": "nearest direction of updates",
    "latest": "nearest direction of updates",
    "loss": "lowest loss of the clusters' models",
    "round": "lowest loss of the clusters' models",
    "random": "drawn at random",
}
KNOWN = "a client of the run"
ONE_MODEL = "the run has one model"
NO_CLUSTER = "similar to no client of the run"


class PlacedClient(NamedTuple):
    """A client of a file, and its cluster.

    Attributes:
        client: the client's name.
        samples: number of samples in the file; of survival, of patients.
        cluster: number of the cluster; None if no cluster suits the client.
        confidence: share of resamples that are placed in the same cluster; None for a client of the
            run, and for a single sample.
        decided: how the cluster was decided, in words.
        model: file of the model that serves the client; None without an export, or if the export
            has no such model.
    """

    client: str
    samples: int
    cluster: int | None
    confidence: float | None
    decided: str
    model: str | None = None


def place_clients(
    trained: TrainedModels,
    data: FederatedData,
    *,
    name: str,
    export: Export | None = None,
    resamples: int = 20,
    seed: int = 0,
) -> list[PlacedClient]:
    """Find the cluster of each client in external data.

    A client of the run keeps its cluster. Any other client is placed by the method's rule for
    newcomers, from all its samples.

    Args:
        trained: the models of the run.
        data: the external data.
        name: name of the only client, if the data name no clients.
        export: an export of the run, which has the files of the models.
        resamples: number of bootstrap resamples for the confidence.
        seed: seed of the resamples, and of the newcomers' local training.

    Raises:
        ConfigError, DataError, MethodError: as for ``Run.place``.
    """
    x = matched_features(data, trained.parts.samples)
    y = matched_labels(data, trained.parts.samples)
    clients = []
    for client in range(data.clients):
        rows = _all_rows(data, client)
        called = name if data.client_names is None else str(data.client_names[client])
        size = len(rows if data.patients is None else data.patients.train[client])
        clients.append(_NewClient(name=called, x=x[rows], y=y[rows], samples=size))
    return _placed(trained, clients, export=export, resamples=resamples, seed=seed)


def place_unlabelled(
    trained: TrainedModels,
    found: UnlabelledClients,
    *,
    export: Export | None = None,
    resamples: int = 20,
    seed: int = 0,
) -> list[PlacedClient]:
    """Find the cluster of each client of a table without labels.

    Args:
        trained: the models of the run.
        found: the clients' samples.
        export, resamples, seed: as for ``place_clients``.

    Raises:
        ConfigError, MethodError: as for ``Run.place``.
    """
    # The method reads no labels, and all are alike.
    kind = np.int64 if task_type_of_samples(trained.parts.samples).loss is None else np.float32
    clients = [
        _NewClient(name=name, x=found.x[rows], y=np.zeros(len(rows), kind), samples=len(rows))
        for name, rows in found.rows.items()
    ]
    return _placed(trained, clients, export=export, resamples=resamples, seed=seed)


class _NewClient(NamedTuple):
    """A client of a file.

    Attributes:
        name: its name.
        x: its samples, in the format of the run's data.
        y: rows like those of ``FederatedData.y``.
        samples: number of its samples; of survival, of its patients.
    """

    name: str
    x: Shaped[np.ndarray, "s ..."]
    y: Shaped[np.ndarray, "s ..."]
    samples: int


def _placed(
    trained: TrainedModels,
    clients: list[_NewClient],
    *,
    export: Export | None,
    resamples: int,
    seed: int,
) -> list[PlacedClient]:
    """The cluster of each client: its own for a client of the run, and for any other client by the
    method's rule for newcomers."""
    placed = []
    for client in clients:
        known = _number(trained, client.name)
        if known is not None:
            cluster = int(trained.state.assignment[known])
            confidence = None
            decided = KNOWN
        else:
            placement = place_rows(trained, client.x, client.y, resamples=resamples, seed=seed)
            cluster = placement.cluster
            confidence = None if np.isnan(placement.confidence) else placement.confidence
            decided = _rule(trained, cluster)
        file = None
        if export is not None:
            file = _file(export, client.name, cluster, known is not None)
        placed.append(
            PlacedClient(
                client=client.name,
                samples=client.samples,
                cluster=None if cluster == UNASSIGNED else cluster,
                confidence=confidence,
                decided=decided,
                model=file,
            )
        )
    return placed


def check_export(export: Export, fingerprint: str) -> None:
    """Raise ConfigError if an export belongs to another run.

    Args:
        export: the export.
        fingerprint: the run's fingerprint.
    """
    if export.card.get("run") != fingerprint:
        raise ConfigError(
            f"{export.folder}: is the export of another run; export this run first: fedkin export "
            "RUN --out MODELS"
        )


def _all_rows(data: FederatedData, client: int) -> Int[np.ndarray, "s"]:
    """The indices of all samples of a client in external data, in ascending order."""
    return np.sort(np.concatenate([data.part(split)[client] for split in data.splits]))


def _number(trained: TrainedModels, name: str) -> int | None:
    """The position of the run's client called ``name``; None if the run has no such client. Without
    names, clients of the run cannot be recognised in a file."""
    if not trained.names:
        return None
    try:
        return trained.client_number(name)
    except ConfigError:
        return None


def _rule(trained: TrainedModels, cluster: int) -> str:
    """How the cluster of a newcomer was decided, in words."""
    if trained.state.clusters == 1:
        return ONE_MODEL
    if cluster == UNASSIGNED:
        return NO_CLUSTER
    method = trained.parts.method
    policy = newcomer_policy(method) if method is not None else None
    if policy in _POLICIES:
        return _POLICIES[policy]
    compared = compared_quantity(method)
    return "the method's rule for newcomers" if compared is None else f"by {compared}"


def _file(export: Export, client: str, cluster: int, known: bool) -> str | None:
    """The path of the model that serves a client; None if the export has no such model."""
    entries: Mapping[str, Any] = export.clients
    if known and client in entries:
        return str(export.folder / entries[client]["file"])
    of_cluster = f"cluster-{cluster}"
    files = [entry["file"] for entry in export.card["models"] if entry["name"] == of_cluster]
    return str(export.folder / files[0]) if files else None
