"""The runs behind FedGroup's Fig. 1, at the settings of its Table I, and Figs. 3 to 5, at the
settings of its Table III. They train the logistic models, in less than a minute each. Fig. 4's
other data set, Sent140, trains an LSTM for 800 rounds, and is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import pdist

from fedkin.core.randomness import Stream
from fedkin.measures.cosine import cosine
from fedkin.measures.ternary import base_directions, ternary_similarity
from fedkin.models import MODELS
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train
from papers.classes_figure import cells_of
from papers.fedgroup.recipes import (
    FEMNIST,
    FEMNIST_MLP,
    METHODS,
    MNIST,
    MNIST_MLP,
    SYNTHETIC,
    TABLE_I,
)
from papers.recipe import Cell, Setting, load

SEEDS = (0, 1, 2)
ALPHA = 20  # alpha m clients are pre-trained
PAIRS = 200  # of clients that are stored for a scatter plot

SHOWN = ("FedAvg", "FedProx", "FedGroup", "FedGrouProx")
SETTINGS_3 = [replace(setting, seeds=SEEDS) for setting in (MNIST, FEMNIST)]
SETTINGS_4 = [replace(SYNTHETIC, seeds=SEEDS)]
SETTINGS_5 = [
    replace(setting, epochs=1, rounds=1, seeds=SEEDS, seconds=5)
    for setting in (MNIST, MNIST_MLP, FEMNIST, FEMNIST_MLP, SYNTHETIC)
]


def _cells(table: str, settings: list[Setting]) -> list[Cell]:
    return [
        Cell(table=table, setting=setting, column=column, method=METHODS[column], published=None)
        for setting in settings
        for column in SHOWN
    ]


FIGURE_1 = cells_of(TABLE_I)
FIGURE_3 = _cells("Fig. 3", SETTINGS_3)
FIGURE_4 = _cells("Fig. 4", SETTINGS_4)
FIGURE_5 = [
    Cell(
        table="Fig. 5", setting=setting, column="pairs", method=METHODS["FedGroup"], published=None
    )
    for setting in SETTINGS_5
]


def measure_pairs(cell: Cell, seed: int) -> dict[str, Any]:
    """Pre-train alpha m clients from one model, as FedGroup's cold start does, and compare their
    pairs by two measures.

    Returns:
        ``pairs``: some pairs' distances in M' and M; ``correlation``, ``slope``, ``offset``: of the
        line through all pairs that gives the distance in M from the distance in M'.
    """
    s = cell.setting
    data = load(s.data, s.data_options, s.draw(seed))
    world = SimulatedWorld(data, MODELS[s.model](data, **dict(s.model_options)), s.training)
    stream = Stream(seed)
    count = min(ALPHA * s.clusters, data.clients)
    clients = np.sort(stream.child("clients").rng().choice(data.clients, count, replace=False))
    start = world.initial(stream.child("model"))
    model_index = np.zeros(count, np.int64)
    updates = train(
        world, start[None], clients, model_index, stream=stream.child("pretrain")
    ).update
    full, ternary = pair_distances(updates[updates.any(axis=1)])  # a zero update has no direction
    slope, offset = np.polyfit(full, ternary, 1)
    drawn_pairs = (
        stream.child("pairs").rng().choice(len(full), min(PAIRS, len(full)), replace=False)
    )
    return {
        "table": cell.table,
        "row": s.row,
        "column": cell.column,
        "seed": seed,
        "pairs": np.round([full[drawn_pairs], ternary[drawn_pairs]], 4).tolist(),
        "correlation": round(float(np.corrcoef(full, ternary)[0, 1]), 4),
        "slope": round(float(slope), 4),
        "offset": round(float(offset), 4),
    }


def pair_distances(
    updates: Float[np.ndarray, "n P"],
) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
    """Euclidean distances of all pairs of clients: between rows of M', the cosines of all updates
    with each other (eq. 6), and between rows of M, the ternary similarities (eq. 9)."""
    return pdist(cosine(updates, updates)), pdist(
        ternary_similarity(updates, base_directions(updates))
    )
