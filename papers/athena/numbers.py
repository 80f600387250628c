"""The published numbers of hierarchical clustering and ATHENA-FL, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.measures.convergence import (
    convergence_epoch,
    economy,
    mean_convergence_epoch,
    transmitted_mib,
)
from papers.athena.published import (
    BEST_CLUSTERS,
    CLUSTERS_PUBLISHED,
    DETECTOR_FILE,
    ECONOMY_PUBLISHED,
    EPS_PUBLISHED,
    GAIN_OF_BEST_CLUSTERS,
    GAINS_PUBLISHED,
    LEAST_GAIN_DIRICHLET,
    MOBILENET_FILE,
    PRINTED_BY_CLUSTER,
    PRINTED_COMBINED,
    TABLE_1,
)
from papers.athena.recipes import (
    ATHENA,
    CLUSTERINGS,
    COMBINED,
    FIGURE_2,
    GIVEN,
    HALF,
    MOBILENET,
    MOBILENET_V2,
    PER_CLUSTER,
    PRETRAINING,
    SMALL_CNN,
    TITLES,
)
from papers.reproduction_marks import (
    MARGIN,
    ComparedNumber,
    Results,
    compare_number,
    mark_of_statement,
)

Run = dict[str, Any]
DETECTORS = 10
ARITHMETIC = "arithmetic, from the paper's epochs"
# Printed numbers without a recipe of the papers' size, by the reason.
SHORTENED_FIGURE_1 = {"400 rounds of a convolutional network (a recipe for 40)": PRINTED_BY_CLUSTER}
SHORTENED_FIGURE_2 = {
    "200 rounds of convolutional networks (recipes for 12, 40 and 100)": PRINTED_COMBINED
}


def finds_true_clusters(labels: Sequence[int], clusters: int) -> bool:
    """Whether a clustering is the true one, whatever its labels; noise is a mistake.

    Args:
        labels: of all clients; -1 is noise.
        clusters: the true number: neighbouring clients share a cluster.
    """
    truth = [client * clusters // len(labels) for client in range(len(labels))]
    pairs = set(zip(labels, truth, strict=True))
    return -1 not in labels and len(pairs) == len(set(labels)) == clusters


def first_run(results: Results, table: str, row: str, column: str) -> Run | None:
    """The run of a cell, of the lowest seed; None where it was not run.

    Args:
        results: stored runs.
        table: of the cell.
        row: of the cell.
        column: of the cell.
    """
    runs = [m for m in results if (m["table"], m["row"], m["column"]) == (table, row, column)]
    return min(runs, key=lambda m: m["seed"], default=None)


def eps(results: Results) -> list[ComparedNumber]:
    """Ranges of eps that find the true clusters: ours and the paper's have an eps in common."""
    numbers = []
    for (split, _), setting in CLUSTERINGS.items():
        for epochs in PRETRAINING if setting.clusters > 1 else ():
            low, high = EPS_PUBLISHED[epochs][split == "5 classes"]
            run = first_run(results, "eps", setting.row, str(epochs))
            ends = None if run is None else run["range"]
            meets = (
                None
                if ends is None
                else bool(ends) and _end(ends[0], 0.0) <= high and low <= _end(ends[1], np.inf)
            )
            ours = "" if ends is None else range_text(ends)
            mark = mark_of_statement(meets)
            seeds = int(run is not None)
            published = f"{low:g} - {high:g}"
            numbers.append(
                ComparedNumber(
                    row=setting.row,
                    column=str(epochs),
                    published=published,
                    ours=ours,
                    difference=None,
                    mark=mark,
                    unit="eps",
                    seeds=seeds,
                    deviation=setting.deviation,
                )
            )
    return numbers


def range_text(ends: list[float | None]) -> str:
    """In words; None is no end, and no ends are no range."""
    if not ends:
        return "none"
    low, high = ends
    if low is None:
        return "any" if high is None else f"up to {high:.3g}"
    return f"from {low:.3g}" if high is None else f"{low:.3g} - {high:.3g}"


def _end(value: float | None, open_end: float) -> float:
    return open_end if value is None else value


def by_cluster(results: Results) -> list[ComparedNumber]:
    """Figure 1: accuracy by cluster where the paper prints it, and the gains over one model."""
    numbers = []
    for split, setting in PER_CLUSTER.items():
        clustered, global_model = (first_run(results, "Fig. 1", setting.row, name) for name in HALF)
        alone = clustered is not None and max(clustered["sizes"]) == 1
        options = {
            "deviation": setting.deviation + (", and no cluster is found" if alone else ""),
            "seeds": int(clustered is not None),
        }
        accuracies = (
            [] if clustered is None else [100 * a for a in clustered["clusters"] if a is not None]
        )
        for i, published in enumerate(CLUSTERS_PUBLISHED.get(split, ())):
            ours = accuracies[i] if i < len(accuracies) else None
            numbers.append(
                compare_number(setting.row, f"cluster {i + 1}", published, ours, **options)
            )
        if not (clustered and global_model):
            gain = best = None
        else:
            one = 100 * global_model["curve"][-1]
            gain = 100 * clustered["curve"][-1] - one
            best = _mean_of(accuracies, BEST_CLUSTERS)
            best = None if best is None else best - one
        numbers += _gains(split, setting.row, gain, best, options)
    return numbers


def _gains(
    split: str, row: str, gain: float | None, best: float | None, options: dict[str, Any]
) -> list[ComparedNumber]:
    """What the papers say of the gain over one model: for two clusters a number, for Dirichlet a
    lower bound, for IID clients no difference.

    Args:
        split: of the clients.
        row: of the setting.
        gain: ours, of all clients.
        best: ours, of the clusters with the printed gain.
        options: of the compared number.
    """
    if split == "2 classes":
        column = "gain of " + " and ".join(f"cluster {c + 1}" for c in BEST_CLUSTERS)
        return [compare_number(row, column, GAIN_OF_BEST_CLUSTERS, best, **options)]
    if split == "Dirichlet(0.5)":
        more = None if gain is None else gain > LEAST_GAIN_DIRICHLET
        words = f"more than {LEAST_GAIN_DIRICHLET:.0f}"
        return [_statement(row, "gain", words, gain, more, options)]
    if split == "IID":
        level = None if gain is None else abs(gain) <= MARGIN
        return [_statement(row, "gain", "none", gain, level, options)]
    return []


def _mean_of(accuracies: list[float], places: tuple[int, ...]) -> float | None:
    """The mean of some clusters' accuracies; None where one of them is missing."""
    if max(places) >= len(accuracies):
        return None
    return float(np.mean([accuracies[place] for place in places]))


def _statement(
    row: str,
    column: str,
    words: str,
    ours: float | None,
    true: bool | None,
    options: dict[str, Any],
) -> ComparedNumber:
    """What the paper says without a number, or with a bound."""
    return ComparedNumber(
        row=row,
        column=column,
        published=words,
        ours="" if ours is None else f"{ours:.4g}",
        difference=None,
        mark=mark_of_statement(true),
        **options,
    )


def combined_detectors(results: Results) -> list[ComparedNumber]:
    """Figures 2 to 4: accuracies of the combined detectors and of the paper's baselines. With 5
    classes the gain over them."""
    numbers = []
    for cell in FIGURE_2:
        if cell.published is None:
            continue
        row, column = cell.setting.row, cell.column
        ours = _accuracy(results, row, column)
        numbers.append(
            compare_number(
                row,
                column,
                cell.published,
                ours,
                seeds=int(ours is not None),
                deviation=cell.setting.deviation,
                variant_of=cell.variant_of,
            )
        )
    for (data, split), setting in COMBINED.items():
        if split == "5 classes":
            numbers += _gain_of_detectors(results, data, setting.row, setting.deviation)
    return numbers


def _gain_of_detectors(
    results: Results, data: str, row: str, deviation: str
) -> list[ComparedNumber]:
    """The detectors' gain over MobileNet where it is printed, else whether they are the best."""
    numbers = []
    mobilenet = _accuracy(results, row, MOBILENET)
    other = _accuracy(results, row, MOBILENET_V2)
    for column in (ATHENA, GIVEN):
        detectors = _accuracy(results, row, column)
        name = f"{column}, gain"
        options = {
            "seeds": int(detectors is not None),
            "deviation": deviation,
            "variant_of": f"{ATHENA}, gain" if column == GIVEN else "",
        }
        if data in GAINS_PUBLISHED:
            gain = _lead(detectors, mobilenet)
            numbers.append(compare_number(row, name, GAINS_PUBLISHED[data], gain, **options))
        else:
            lead = _lead(detectors, mobilenet, other)
            best = None if lead is None else lead > 0
            numbers.append(_statement(row, name, "above both", lead, best, options))
    return numbers


def _lead(ours: float | None, *others: float | None) -> float | None:
    """What an accuracy is ahead of the best of others; None where one of them was not run."""
    known = [other for other in others if other is not None]
    return None if ours is None or len(known) < len(others) else ours - max(known)


def _accuracy(results: Results, row: str, column: str) -> float | None:
    """Mean accuracy of the clients in the last round, percent; None where it was not run."""
    run = first_run(results, "Fig. 2-4", row, column)
    return None if run is None else 100 * float(np.mean(run["clients"]))


# The paper's Table 1 compares with MobileNet. The small network was run in its place first.
FROM_RUNS = {MOBILENET: "from our runs", SMALL_CNN: "from our runs, small CNN"}


def table_1(results: Results) -> list[ComparedNumber]:
    """The share of FedAvg's bytes that is saved, percent: from the paper's own epochs, and from our
    runs."""
    numbers = []
    for data, shares in ECONOMY_PUBLISHED.items():
        for split, percent in zip(("IID", "5 classes", "2 classes"), shares, strict=True):
            row = f"{split}, {TITLES[data]}"
            setting = COMBINED[data, split]
            numbers.append(
                compare_number(
                    row,
                    ARITHMETIC,
                    percent,
                    _as_printed(data, split),
                    unit="% of the bytes",
                    margin=0.01,
                    deviation="nothing was run",
                )
            )
            for baseline, column in FROM_RUNS.items():
                ours, complete = saved_bytes(results, setting.row, baseline)
                numbers.append(
                    compare_number(
                        row,
                        column,
                        percent,
                        ours,
                        unit="% of the bytes",
                        deviation=setting.deviation,
                        seeds=int(complete),
                    )
                )
    return numbers


def saved_bytes(results: Results, row: str, baseline: str) -> tuple[float | None, bool]:
    """The share of a baseline's bytes that the detectors of given clusters save, percent; None
    where one of the two did not converge. And whether both were run.

    Args:
        results: stored runs.
        row: of Figures 2 to 4.
        baseline: the column of FedAvg's network.
    """
    runs = [first_run(results, "Fig. 2-4", row, name) for name in (GIVEN, baseline)]
    traffic = [None if run is None else until_convergence(run)[1] for run in runs]
    if traffic[0] is None or not traffic[1]:
        return None, all(runs)
    return 100 * economy(traffic[0], traffic[1]), all(runs)


def _as_printed(data: str, split: str) -> float:
    ours, theirs = TABLE_1[data, split]
    return 100 * economy(
        transmitted_mib(ours, DETECTORS, DETECTOR_FILE), transmitted_mib(theirs, 1, MOBILENET_FILE)
    )


def until_convergence(run: Run) -> tuple[float | None, float | None]:
    """E[e], and the paper's TDT until then in MiB; None without convergence."""
    detects = "detectors" in run
    accuracy = (
        np.array(run["detectors"], np.float64)[1:].T
        if detects
        else np.array(run["curve"], np.float64)[1:]
    )
    epoch = mean_convergence_epoch(accuracy) if detects else convergence_epoch(accuracy)
    each = run["parameters"] * BYTES_PER_NUMBER
    return (
        (None, None)
        if epoch is None
        else (epoch, transmitted_mib(epoch, len(accuracy) if detects else 1, each))
    )
