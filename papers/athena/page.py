"""ATHENA-FL's page, docs/results-athena.md."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.clustering.density import assign_noise
from fedkin.measures.convergence import confidence_interval
from papers.athena.numbers import first_run, range_text
from papers.athena.published import (
    CLUSTERS_PUBLISHED,
    COMBINED_PUBLISHED,
    DETECTORS,
    EPS_PUBLISHED,
    FOUND_PUBLISHED,
    GAINS_PUBLISHED,
)
from papers.athena.recipes import (
    ATHENA,
    CLUSTERINGS,
    COLUMNS,
    COMBINED,
    HALF,
    MOBILENET,
    MOBILENET_V2,
    PER_CLUSTER,
    PRETRAINING,
    SPLITS,
    TITLES,
)
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

# What the papers say of the gain over one model.
GAINS_IN_WORDS = {
    "2 classes": "about 16 for clusters 1 and 4",
    "5 classes": "-",
    "Dirichlet(0.5)": "more than 14",
    "IID": "none",
}
# The name of a column in COMBINED_PUBLISHED.
PRINTED_AS = {ATHENA: DETECTORS, MOBILENET: "MobileNet", MOBILENET_V2: "MobileNetV2"}


def ranges(results: Results) -> str:
    """The eps values that find all clusters of 2-class clients, of 5-class clients, and of both."""
    lines = []
    for model, name in (("cnn", "CNN"), ("mobilenet_v2", "MobileNetV2")):
        for epochs in PRETRAINING:
            cells = [
                first_run(results, "eps", CLUSTERINGS[split, model].row, str(epochs))
                for split in SPLITS
            ]
            iid, *others = [None if cell is None else cell["range"] for cell in cells]
            published = EPS_PUBLISHED[epochs]
            ours = [
                _ends(ends) + f"<br>*{low:g} - {high:g}*"
                for ends, (low, high) in zip(others, published, strict=True)
            ]
            both = [ends for ends in others if ends]
            common = (
                f"{max(e[0] for e in both):.3g} - {min(e[1] for e in both):.3g}"
                if len(both) == 2
                else "-"
            )
            empty = len(both) == 2 and max(e[0] for e in both) >= min(e[1] for e in both)
            lines.append([name, str(epochs), *ours, "none" if empty else common, f"{_least(iid)}"])
    head = [
        "model",
        "local epochs",
        "2 classes: 5 clusters",
        "5 classes: 2 clusters",
        "both",
        "IID: 1 cluster from",
    ]
    return markdown(head, lines)


def _ends(ends: list[float | None] | None) -> str:
    return "not run" if ends is None else f"**{range_text(ends)}**"


def _least(ends: Sequence[float] | None) -> str:
    if ends is None:
        return "not run"
    return f"**{ends[0]:.3g}**" if ends else "**none**"


def clusters_found(results: Results) -> str:
    """Clusters by the three algorithms after ten epochs."""
    from sklearn.metrics import adjusted_rand_score

    lines = []
    for (split, model), setting in CLUSTERINGS.items():
        cell = first_run(results, "eps", setting.row, "10")
        clusters = setting.clusters
        shown = []
        for algorithm in ("dbscan", "optics", "kmeans"):
            if cell is None:
                shown.append("not run")
                continue
            labels = np.array(cell[algorithm])
            true_clusters = np.arange(10) * clusters // 10
            noise = int((labels < 0).sum())
            count = f"**{len(np.unique(labels[labels >= 0]))}**" + (
                f" and {noise} noise" if noise else ""
            )
            assigned = assign_noise(np.array(cell["biases"], np.float64), labels, "own")
            shown.append(f"{count} ({adjusted_rand_score(true_clusters, assigned):.2f})")
        dense, steep = FOUND_PUBLISHED[split]
        k_used = str(clusters) if clusters > 1 else "3"
        name = {"cnn": "CNN", "mobilenet_v2": "MobileNetV2"}[model]
        lines.append(
            [
                split,
                name,
                f"{shown[0]}<br>*{dense}*",
                f"{shown[1]}<br>*{steep}*",
                f"{shown[2]}<br>*{k_used}, given*",
            ]
        )
    return markdown(["clients", "model", "DBSCAN", "OPTICS", "K-means"], lines)


def per_cluster(results: Results) -> str:
    """All clients together, the clusters one by one, and the gain."""
    lines = []
    for split, setting in PER_CLUSTER.items():
        runs = [first_run(results, "Fig. 1", setting.row, name) for name in HALF]
        gain = GAINS_IN_WORDS[split]
        by_cluster = ", ".join(map(str, CLUSTERS_PUBLISHED.get(split, ()))) or "-"
        if any(run is None for run in runs):
            lines.append([split, *["not run"] * 3, f"not run<br>*{gain}*"])
            continue
        curves = [run["curve"] for run in runs if run]
        scores = [f"**{100 * curve[-1]:.1f}** ({100 * max(curve):.1f})" for curve in curves]
        accuracies = runs[0]["clusters"]  # type: ignore[index]
        own = ", ".join(f"{100 * a:.1f}" for a in accuracies if a is not None)
        own += f" ({_found(runs[0]['sizes'])})<br>*{by_cluster}*"  # type: ignore[index]
        lines.append(
            [split, *scores, own, f"**{100 * (curves[0][-1] - curves[1][-1]):+.1f}**<br>*{gain}*"]
        )
    return markdown(["clients", "clustered", "one model", "by cluster", "gain"], lines)


def _found(sizes: Sequence[int]) -> str:
    """How many clusters, in words: DBSCAN's have at least two clients; a client alone is noise."""
    clusters = sum(size > 1 for size in sizes)
    noise = sum(size == 1 for size in sizes)
    return f"{clusters or 'none'} found" + (f", {noise} noise" if noise else "")


def combined_detectors(results: Results) -> str:
    """The combined detectors and FedAvg, and the paper's accuracies: mean over clients, with the
    paper's kind of interval."""
    lines = []
    for (data, split), setting in COMBINED.items():
        cells = []
        for column in COLUMNS:
            run = first_run(results, "Fig. 2-4", setting.row, column)
            ours = "not run" if run is None else _interval(run["clients"])
            published = _published(data, split, column)
            cells.append(f"{ours}<br>*{published}*" if published else ours)
        lines.append([f"{TITLES[data]}, {split}", *cells])
    return markdown(["", *COLUMNS], lines)


def _published(data: str, split: str, column: str) -> str:
    """What the paper prints of a cell of Figures 2 to 4; empty where it prints nothing."""
    if column == ATHENA and split == "5 classes":
        gain = GAINS_PUBLISHED.get(data)
        return "above both" if gain is None else f"{gain:g} above MobileNet"
    accuracies = COMBINED_PUBLISHED.get((data, split), {})
    if column not in PRINTED_AS or PRINTED_AS[column] not in accuracies:
        return ""
    middle, half = accuracies[PRINTED_AS[column]]
    return f"{middle} ± {half}"


def _interval(accuracies: Sequence[float]) -> str:
    middle, half = confidence_interval(100 * np.array(accuracies, np.float64))
    return f"**{middle:.1f}** ± {half:.1f}"
