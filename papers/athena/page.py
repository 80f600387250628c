"""ATHENA-FL's page, docs/results-athena.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedkin.clustering.density import assign_noise
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.measures.convergence import (
    confidence_interval,
    convergence_epoch,
    economy,
    transmitted_mib,
)
from papers.athena.numbers import Run, first_run, range_text, until_convergence
from papers.athena.published import (
    CLUSTERS_PUBLISHED,
    COMBINED_PUBLISHED,
    DETECTOR_FILE,
    DETECTORS,
    EPS_PUBLISHED,
    FOUND_PUBLISHED,
    GAINS_PUBLISHED,
    MOBILENET_FILE,
    TABLE_1,
)
from papers.athena.recipes import (
    ATHENA,
    CLUSTERINGS,
    COLUMNS,
    COMBINED,
    EPS,
    GIVEN,
    HALF,
    MOBILENET,
    MOBILENET_V2,
    PER_CLUSTER,
    PRETRAINING,
    SMALL_CNN,
    SPLITS,
    TITLES,
)
from papers.tables_markdown import Results, markdown

MIB = 2**20
# What the papers say of the gain over one model.
GAINS_IN_WORDS = {
    "2 classes": "about 16 for clusters 1 and 4",
    "5 classes": "-",
    "Dirichlet(0.5)": "more than 14",
    "IID": "none",
}
# The name of a column in COMBINED_PUBLISHED.
PRINTED_AS = {ATHENA: DETECTORS, MOBILENET: "MobileNet", MOBILENET_V2: "MobileNetV2"}


def eps(results: Results) -> str:
    """Clusterings: ranges of eps, and the clusters found."""
    return "\n\n".join(
        [
            "## Ranges of eps that find the clusters: ten clients, CIFAR-10, after 5, 10 and 20 "
            "local epochs",
            ranges(results),
            f"## Clusters found with the authors' eps = {EPS}, after ten local epochs (adjusted "
            "Rand index)",
            clusters_found(results),
            "![which eps makes how many clusters](images/athena-eps.svg)",
        ]
    )


def figure_1(results: Results) -> str:
    """A model for each cluster."""
    return "\n\n".join(
        [
            "## Figure 1: a model for each cluster, against one model for all",
            "Accuracy in the last round (and in the best), percent.",
            per_cluster(results),
            "![accuracy of the clusters](images/athena-apart.svg)",
        ]
    )


def figure_2(results: Results) -> str:
    """Detectors combined."""
    return "\n\n".join(
        [
            "## Figures 2 to 4: detectors combined, tested on all classes (accuracy, %, last "
            "round)",
            "The clusters of the first column are found by DBSCAN, as in the paper's text.",
            combined_detectors(results),
            "![accuracy of the combined detectors](images/athena-shared.svg)",
        ]
    )


def table_1(results: Results) -> str:
    """Bytes transmitted."""
    return "\n\n".join(
        [
            "## Table 1 as it is printed, from its own inputs (arithmetic: nothing was trained)",
            "E[e] is the epoch of convergence, and TDT all data that are transmitted until then. "
            "The epochs are the paper's, and the sizes are the sizes of the authors' files. The "
            "printed shares follow from them. This confirms the formula of the table, not the "
            "methods.",
            published_table_1(),
            "## Table 1 from our runs",
            transmissions(results),
        ]
    )


ABOUT = """\
All runs have one seed. The *paper's* numbers are in italics. \
The recipes are smaller than the paper's, so that two cores can
run them:

| | ours | papers |
| --- | --- | --- |
| Figure 1 | 40 rounds, ten clients with 500 training images each | 400 rounds |
| Figures 2 to 4 | 40 rounds (12 for IID clients of MNIST), twenty clients with 200 images each \
| 200 rounds |
| their MobileNet, MobileNetV2 | 100 rounds, the same clients | 200 rounds |

`fedkin reproduce` says how long each takes. Other differences and conventions:

* The small CNN (312,010 parameters in colour) is not in the paper. It was run first, in the place \
of MobileNet (3,239,114)
  and MobileNetV2 (2,270,794).
* No image is augmented. Labels are right here: \
the authors' script of Figure 1 mislabels a sixth of the images, and
  augments before it splits.
* The clusters of Figures 2 to 4 are found by DBSCAN in one column, and given in the others, as \
in the authors' code. They are
  found with MobileNetV2 and 1,000 images a client, because the authors' eps belongs to these.
* The value after ± is 1.96 s/√20, over the clients of the one run."""


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


def published_table_1() -> str:
    """Table 1 computed from the epochs that the paper prints and the sizes of the authors' files;
    no training."""
    lines = []
    for (data, split), (ours, theirs) in TABLE_1.items():
        size = transmitted_mib(ours, 10, DETECTOR_FILE), transmitted_mib(theirs, 1, MOBILENET_FILE)
        cells = [
            str(ours),
            f"{size[0]:.3f}",
            str(theirs),
            f"{size[1]:.3f}",
            f"{100 * economy(*size):.2f}",
        ]
        lines.append([f"{TITLES[data]}, {split}", *cells])
    return markdown(["", "E[e]", "TDT (MiB)", "E[e] FedAvg", "TDT (MiB)", "economy (%)"], lines)


def transmissions(results: Results) -> str:
    """Epochs to convergence, bytes by the table's formula, and all bytes sent until then: of the
    detectors, and of each network that one model was trained with."""
    lines = []
    for (data, split), setting in COMBINED.items():
        title = f"{TITLES[data]}, {split}"
        detectors = first_run(results, "Fig. 2-4", setting.row, GIVEN)
        of_row = []
        for baseline in (MOBILENET, SMALL_CNN):
            one_model = first_run(results, "Fig. 2-4", setting.row, baseline)
            if detectors and one_model:
                network = baseline.removeprefix("FedAvg, ")
                of_row.append([title, network, *_compared_costs(detectors, one_model)])
        lines += of_row or [[title, *["not run"] * 6]]
    head = [
        "",
        "one model",
        "detectors: E[e]",
        "TDT / all (MiB)",
        "FedAvg: E[e]",
        "TDT / all (MiB)",
        "economy (%)",
    ]
    return markdown(head, lines)


def _compared_costs(detectors: Run, one_model: Run) -> list[str]:
    """The costs of the detectors and of one model, and the share that the detectors save."""
    costs = [_cost(run) for run in (detectors, one_model)]
    saved = [
        f"{100 * economy(a, b):.1f}" if a and b else "-"
        for a, b in zip(costs[0][1], costs[1][1], strict=True)
    ]
    return [*costs[0][0], *costs[1][0], " / ".join(saved)]


def _cost(run: Run) -> tuple[list[str], tuple[float | None, float | None]]:
    """E[e]; the paper's TDT, and all bytes both ways of all clients until then, with the final
    models for all."""
    epoch, table = until_convergence(run)
    if epoch is None or table is None:
        return [f"over {len(run['curve']) - 1}", "-"], (None, None)
    detectors = np.array(run.get("detectors", ()), np.float64)[1:].T
    each = run["parameters"] * BYTES_PER_NUMBER
    count = len(detectors) or 1
    whole = sum(run["bytes"][math.ceil(epoch)]) + len(run["clients"]) * count * each
    settled = sum(convergence_epoch(curve) is not None for curve in detectors)
    share_text = f" ({settled} of {count})" if len(detectors) else ""
    return [f"**{epoch:.3g}**{share_text}", f"{table:.1f} / {whole / MIB:,.0f}"], (
        table,
        whole / MIB,
    )
