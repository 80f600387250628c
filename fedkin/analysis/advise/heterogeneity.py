"""Three measures of client heterogeneity, each compared with IID splits of the same samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.advise.split_half_stability import iid_split, units_of_clients
from fedkin.analysis.non_iid_index import index_of_world
from fedkin.core.randomness import Stream
from fedkin.data.describe import label_icc
from fedkin.data.federated import FederatedData
from fedkin.measures.gradient_dissimilarity import gradient_dissimilarity
from fedkin.measures.label_divergence import label_divergence
from fedkin.measures.number_bins import bin_counts, quantile_edges
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.gradients import Gradients

MODELS = 10  # number of random models for PNI
_MAX_GRADIENTS = 200  # largest number of clients whose gradients are stored
Measures = dict[str, float]


def heterogeneity(
    data: FederatedData,
    model: AnyModel,
    *,
    seed: int = 0,
    iid_splits: int = 5,
    private_labels: bool = False,
) -> pd.DataFrame:
    """Measure the heterogeneity of clients. Returns a table with a row for each measure; the
    names of the measures are its index.

    The columns are ``value``; the mean, minimum and maximum over several IID splits of the same
    samples (``iid``, ``low``, ``high``); and ``ratio``, the value divided by the mean.

    PNI is FedSim's non-IID index (``non_iid_index``), the mean over ten random models. Label
    divergence is the mean Jensen-Shannon divergence between a client's label distribution and the
    overall one. It needs label counts, so it is left out if labels are private. Gradient
    dissimilarity is FedProx's B^2 at the initial model.

    Args:
        data: the clients' data.
        model: the model to train.
        seed: seed of models and splits.
        iid_splits: number of IID splits to compare with.
        private_labels: whether to skip measures that need the clients' label counts.
    """
    stream = Stream(seed, 0, "advise/differences")
    bare = replace(data, true_clusters=None, client_names=None)
    values = _measure(bare, model, stream, private_labels)
    chance = []
    unit = units_of_clients(bare)
    for number in range(iid_splits):
        rng = stream.child(f"deal {number}").rng()
        same_sizes = bare.with_rows(iid_split(bare.train, rng, unit), bare.test)
        chance.append(_measure(same_sizes, model, stream, private_labels))
    rows = {
        name: _row(value, np.array([other[name] for other in chance]))
        for name, value in values.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")


def _row(value: float, chance: Float[np.ndarray, "deals"]) -> Measures:
    """The table row of a heterogeneity measure, from its value and from its values in IID splits
    (``chance``)."""
    mean = float(chance.mean())
    ratio = value / mean if mean > 0 and np.isfinite(value) else float("nan")
    return {
        "value": value,
        "iid": mean,
        "low": float(chance.min()),
        "high": float(chance.max()),
        "ratio": ratio,
    }


def _measure(
    data: FederatedData, model: AnyModel, stream: Stream, private_labels: bool
) -> Measures:
    """All heterogeneity measures of one federation, which is either the clients' data or an IID
    split of these data."""
    world = SimulatedWorld(data, model)
    measures: dict[str, Callable[[], float]] = {
        "PNI": lambda: index_of_world(world, models=MODELS, seed=stream.seed).pni,
        "label divergence": lambda: _label_divergence(data),
        "gradient dissimilarity": lambda: _dissimilarity(world, stream),
    }
    if data.task_type.loss is not None:
        measures["ICC of labels"] = lambda: label_icc(data)
    return {
        name: measure()
        for name, measure in measures.items()
        if not (private_labels and name in ("label divergence", "ICC of labels"))
    }


def _label_divergence(data: FederatedData) -> float:
    """The mean divergence of the clients' labels: of classes, or of bins of numbers."""
    if data.task_type.loss is None:
        return float(label_divergence(data.label_counts()).mean())
    labels = data.labels[data.train.rows]
    counts = bin_counts(labels, data.train.owners(), data.clients, quantile_edges(labels))
    return float(label_divergence(counts).mean())


def _dissimilarity(world: SimulatedWorld, stream: Stream) -> float:
    """Gradient dissimilarity B^2 at the initial model, over all clients or a random subset of at
    most ``_MAX_GRADIENTS``."""
    clients = np.arange(world.total_clients)
    if len(clients) > _MAX_GRADIENTS:
        clients = np.sort(
            stream.child("clients").rng().choice(clients, _MAX_GRADIENTS, replace=False)
        )
    start = world.initial(stream.child("model"))
    gradients = world.run(Gradients(start[None], np.zeros_like(clients)), clients).gradients
    return gradient_dissimilarity(gradients, world.data.train.sizes[clients])
