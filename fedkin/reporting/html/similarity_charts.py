"""The report's charts of client similarity: map of the clients, similarity matrix, and labels by
cluster."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.data.federated import FederatedData
from fedkin.reporting.html.client_similarity import (
    ClientSimilarity,
    client_similarity,
    stored_similarity,
)
from fedkin.reporting.html.dendrogram import Tree, dendrogram, split_tree, splits
from fedkin.reporting.html.json_values import Json, cluster_name, rounded
from fedkin.reporting.html.read_runs import ReportedRun
from fedkin.run.run import Run
from fedkin.simulation.workers import AnyModel

# Largest number of similarities, unless there are more settings. Each has up to 200 x 200 cosines.
LIMIT = 24
# Largest numbers of classes and clusters in the chart of labels.
_CLASSES = 100
_CLUSTERS = 24
OUTLYING = 3.0  # an outlier is farther from the quartiles than this many interquartile ranges
OUTLIERS = 0.1  # largest share of the clients that the map treats as outliers on one axis
SQUASHED = 0.6  # outliers are left outside if the others take less than this share of an axis
_MISSING = "No client map, similarity matrix and labels"


class SimilarityCharts(NamedTuple):
    """Client similarities by key, and notes that say why others are missing."""

    by_key: dict[str, ClientSimilarity]
    notes: list[str]


def hint(folder: Path | None) -> str:
    """A sentence that says how to add client similarity to a report.

    Args:
        folder: the folder of the report's runs; None: they have none.
    """
    shown = "DIR" if folder is None else shlex.quote(str(folder))
    return (
        "To add a map of the clients, their similarities and labels by cluster: fedkin report "
        f"{shown} --similarity (trains up to 200 clients for one epoch)."
    )


def stored_similarities(runs: Sequence[ReportedRun], keys: Sequence[str]) -> SimilarityCharts:
    """The client similarities that are stored in the runs' folders, by key, without any
    training."""
    stored = {}
    for reported, key in zip(runs, keys, strict=True):
        similarity = stored_similarity(reported.run)
        if similarity:
            stored[key] = similarity
    return SimilarityCharts(stored, [])


def compute_similarities(
    runs: Sequence[ReportedRun],
    keys: Sequence[str],
    data: FederatedData | None,
    model: AnyModel | None,
) -> SimilarityCharts:
    """Load or compute a similarity for each setting, and further ones up to LIMIT. Clients are
    trained if no similarity is stored.

    Args:
        runs: all runs of the report.
        keys: the key of each run. Runs with the same key share a similarity.
        data: data of runs that were started from Python.
        model: model of runs that were started from Python.
    """
    cells = list(zip(runs, keys, strict=True))
    firsts = {reported.setting: (reported, key) for reported, key in reversed(cells)}
    ordered = dict.fromkeys(key for _, key in (*reversed(firsts.values()), *cells))
    selected = list(ordered)[: max(LIMIT, len(firsts))]
    by_key = {}
    notes = []
    for key in selected:
        reported = next(run for run, run_key in cells if run_key == key)
        try:
            by_key[key] = client_similarity(reported.run, data, model)
        except FedkinError as error:
            setting = f" for {reported.setting}" if reported.setting else ""
            notes.append(f"{_MISSING}{setting}: {error}.")
    omitted = [reported.label for reported, key in cells if key not in selected]
    if omitted:
        shown = "; ".join(omitted[:3])
        if len(omitted) > 3:
            shown += " ..."
        notes.append(f"{_MISSING} of {len(omitted)} runs with other data shifts: {shown}.")
    return SimilarityCharts(by_key, notes)


def similarity_json(similarity: ClientSimilarity) -> Json:
    """The part of the charts that is the same for all runs with this similarity.

    Cosines are stored as bytes, from the smallest cosine (0) to the largest (255).
    """
    cosines = similarity.cosines
    low = float(cosines.min())
    high = float(cosines.max())
    steps = np.rint(255 * (cosines - low) / ((high - low) or 1)).astype(np.uint8)
    scale = float(np.abs(similarity.scores).max()) or 1.0
    scores = similarity.scores / scale
    ids = similarity.ids
    true_clusters = similarity.true_clusters
    names = similarity.names
    return {
        "ids": ids.tolist(),
        "x": rounded(scores[:, 0]),
        "y": rounded(scores[:, 1]),
        "x_range": rounded(map_range(scores[:, 0])),
        "y_range": rounded(map_range(scores[:, 1])),
        "explained": rounded(similarity.explained),
        "true_clusters": None if true_clusters is None else true_clusters[ids].tolist(),
        "names": None if names is None else [names[i] for i in ids],
        "cosines": base64.b64encode(steps.tobytes()).decode(),
        "range": rounded([low, high]),
        "note": similarity.note,
        "clients": len(similarity.label_counts),
    }


def map_range(scores: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """The part of an axis that the map of the clients shows. A few outliers, which would squash all
    other clients into one spot, are outside it.

    Args:
        scores: scores of the clients on one principal component.

    Returns:
        The lowest and the highest score that is no outlier, with some room on both sides. All
        clients are inside if more than OUTLIERS of them would be outside, or if the axis would
        hardly become shorter.
    """
    low, high = np.quantile(scores, [0.25, 0.75])
    reach = OUTLYING * (high - low)
    usual = scores[(scores >= low - reach) & (scores <= high + reach)]
    few = len(usual) >= (1 - OUTLIERS) * len(scores)
    if not few or np.ptp(usual) > SQUASHED * np.ptp(scores):
        usual = scores
    room = 0.08 * float(np.ptp(usual)) or 0.1
    return float(usual.min()) - room, float(usual.max()) + room


def run_charts(
    run: Run, similarity: ClientSimilarity, assignments: Sequence[Int[np.ndarray, "N"]]
) -> Json:
    """The part of the charts that differs between runs: clusters, order and tree of the similarity
    matrix, labels by cluster.

    Args:
        run: the run.
        similarity: similarity of the run's clients.
        assignments: the cluster of each client after each round; empty if unknown.
    """
    clusters = run.assignment[similarity.ids]
    tree = _tree(run, similarity, clusters, assignments)
    lines = [
        [[round(float(height), 3), round(float(place), 2)] for height, place in line]
        for line in tree.lines
    ]
    return {
        "assignment": clusters.tolist(),
        "tree": {"kind": tree.kind, "order": tree.order.tolist(), "lines": lines},
        "labels": _labels(run, similarity),
    }


def _labels(run: Run, similarity: ClientSimilarity) -> Json:
    """Chart of labels by cluster: the number of training samples of each class in each cluster."""
    sizes = {int(k): int((run.assignment == k).sum()) for k in np.unique(run.assignment)}
    by_size = sorted((k for k in sizes if k != UNASSIGNED), key=lambda k: -sizes[k])
    order = sorted(by_size[:_CLUSTERS])
    if UNASSIGNED in sizes:
        order.append(UNASSIGNED)
    counts = np.stack([similarity.label_counts[run.assignment == k].sum(axis=0) for k in order])
    classes = np.arange(counts.shape[1])
    if len(classes) > _CLASSES:  # keep the most frequent classes
        classes = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:_CLASSES])
    return {
        "names": [cluster_name(k) for k in order],
        "clients": [sizes[k] for k in order],
        "classes": classes.tolist(),
        "counts": counts[:, classes].tolist(),
        "omitted_classes": int(counts.shape[1] - len(classes)),
        "omitted_clusters": len(sizes) - len(order),
    }


def _tree(
    run: Run,
    similarity: ClientSimilarity,
    clusters: Int[np.ndarray, "n"],
    assignments: Sequence[Int[np.ndarray, "N"]],
) -> Tree:
    """The tree of clients left of the similarity matrix: the tree of splits if the method splits
    clusters in two, otherwise a dendrogram."""
    distances = (1 - similarity.cosines.astype(np.float64)) / 2
    history = splits(assignments) if assignments else None
    if history:
        return split_tree(history, clusters, distances, run.records[-1]["round"])
    return dendrogram(distances, clusters)
