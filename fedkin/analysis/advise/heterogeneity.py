"""How far clients differ, in three measures, each beside what it is for the same samples dealt at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.advise.split_half_stability import dealt
from fedkin.analysis.non_iid_index import heterogeneity
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.measures.gradient_dissimilarity import gradient_dissimilarity
from fedkin.measures.label_divergence import label_divergence
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

MODELS = 10  # random ones, for PNI
_MOST = 200  # clients that are asked for a gradient: each has P numbers
Measures = dict[str, float]


def differences(
    data: FederatedData, model: AnyModel, *, seed: int = 0, deals: int = 5, private_labels: bool = False
) -> pd.DataFrame:
    """One row a measure (its index): ``value``; mean, lowest and highest of several random deals (``dealt``, ``low``,
    ``high``), in which nobody differs but by chance; and ``times``, the value in units of their mean.

    PNI is FedSim's index of ten random models, label divergence the mean Jensen-Shannon divergence of a client's labels
    to those of all (left out where labels are private: it needs their counts), gradient dissimilarity FedProx's B^2 at
    the initial model.
    """
    stream = Stream(seed, 0, "advise/differences")
    bare = replace(data, true_clusters=None, client_names=None)
    found = _measured(bare, model, stream, private_labels)
    chance = []
    for one in range(deals):
        rng = stream.child(f"deal {one}").rng()
        same_sizes = bare.with_rows(dealt(bare.train, rng), bare.test)
        chance.append(_measured(same_sizes, model, stream, private_labels))
    rows = {name: _row(value, np.array([other[name] for other in chance])) for name, value in found.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")


def _row(value: float, chance: Float[np.ndarray, "deals"]) -> Measures:
    mean = float(chance.mean())
    times = value / mean if mean > 0 and np.isfinite(value) else float("nan")
    return {"value": value, "dealt": mean, "low": float(chance.min()), "high": float(chance.max()), "times": times}


def _measured(data: FederatedData, model: AnyModel, stream: Stream, private_labels: bool) -> Measures:
    world = SimulatedWorld(data, model)
    measures: dict[str, Callable[[], float]] = {
        "PNI": lambda: heterogeneity(world, models=MODELS, seed=stream.seed).pni,
        "label divergence": lambda: float(label_divergence(data.label_counts()).mean()),
        "gradient dissimilarity": lambda: _dissimilarity(world, stream),
    }
    return {name: ask() for name, ask in measures.items() if not (private_labels and name == "label divergence")}


def _dissimilarity(world: SimulatedWorld, stream: Stream) -> float:
    """B^2 at the initial model, of all clients, or of some where there are many."""
    asked = np.arange(world.total_clients)
    if len(asked) > _MOST:
        asked = np.sort(stream.child("clients").rng().choice(asked, _MOST, replace=False))
    start = world.initial(stream.child("model"))
    gradients = world.gradients(start[None], asked, np.zeros_like(asked))
    return gradient_dissimilarity(gradients, world.data.train.sizes[asked])
