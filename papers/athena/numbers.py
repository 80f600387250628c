"""The published numbers of hierarchical clustering and ATHENA-FL, and ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.measures.convergence import (
    convergence_epoch,
    economy,
    mean_convergence_epoch,
    transmitted_mib,
)
from papers.athena.recipes import (
    CLUSTERINGS,
    COMBINED,
    COMBINED_PUBLISHED,
    DETECTOR_FILE,
    ECONOMY_PUBLISHED,
    EPS_PUBLISHED,
    HALF,
    MOBILENET_FILE,
    PER_CLUSTER,
    PER_CLUSTER_PUBLISHED,
    PRETRAINING,
    TABLE_1,
    TITLES,
)
from papers.reproduction_marks import ComparedNumber, Results, compare_number, mark_of_statement

Run = dict[str, Any]
DETECTORS = 10
ARITHMETIC = "arithmetic, from the paper's epochs"


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
    """Figure 1: accuracy by cluster where the paper prints it, else the gain over one model for
    all."""
    numbers = []
    for split, setting in PER_CLUSTER.items():
        clustered, global_model = (first_run(results, "Fig. 1", setting.row, name) for name in HALF)
        alone = clustered is not None and max(clustered["sizes"]) == 1
        deviation = setting.deviation + (", and no cluster is found" if alone else "")
        options = {"deviation": deviation, "seeds": int(clustered is not None)}
        by_cluster, gain = PER_CLUSTER_PUBLISHED[split]
        accuracies = (
            [] if clustered is None else [100 * a for a in clustered["clusters"] if a is not None]
        )
        for i, printed in enumerate([] if by_cluster == "-" else by_cluster.split(", ")):
            ours = accuracies[i] if i < len(accuracies) else None
            numbers.append(
                compare_number(setting.row, f"cluster {i + 1}", float(printed), ours, **options)
            )
        if by_cluster == "-":
            ours = (
                None
                if not (clustered and global_model)
                else 100 * (clustered["curve"][-1] - global_model["curve"][-1])
            )
            numbers.append(_gain(setting.row, gain, ours, options))
    return numbers


def combined_detectors(results: Results) -> list[ComparedNumber]:
    """Figures 2 to 4: accuracy of the combined detectors; with 5 classes, their gain over one
    model."""
    numbers = []
    for key, setting in COMBINED.items():
        detectors, global_model = (
            first_run(results, "Fig. 2-4", setting.row, name) for name in ("ATHENA-FL", "FedAvg")
        )
        options = {"deviation": setting.deviation, "seeds": int(detectors is not None)}
        printed = COMBINED_PUBLISHED[key][0]
        ours = None if detectors is None else 100 * float(np.mean(detectors["clients"]))
        if "above" in printed:
            gain = (
                None
                if ours is None or global_model is None
                else ours - 100 * float(np.mean(global_model["clients"]))
            )
            numbers.append(_gain(setting.row, printed, gain, options))
        else:
            published = None if printed == "-" else float(printed.split()[0])
            numbers.append(compare_number(setting.row, "ATHENA-FL", published, ours, **options))
    return numbers


def _gain(row: str, printed: str, ours: float | None, options: dict[str, Any]) -> ComparedNumber:
    """A gain in points: a number, or 'more than' one, or 'above'."""
    words = printed.split()
    numbers = [float(word) for word in words if word.replace(".", "").isdigit()]
    least = numbers[0] if numbers else 0.0
    if numbers and "more" not in words:
        return compare_number(row, "gain", least, ours, **options)
    mark = mark_of_statement(None if ours is None else ours > least)
    return ComparedNumber(
        row=row,
        column="gain",
        published=printed,
        ours="" if ours is None else f"{ours:.4g}",
        difference=None,
        mark=mark,
        **options,
    )


def table_1(results: Results) -> list[ComparedNumber]:
    """The share of FedAvg's bytes that is saved, percent: from the paper's own epochs, and from our
    runs."""
    numbers = []
    for data, printed in ECONOMY_PUBLISHED.items():
        for split, percent in zip(("IID", "5 classes", "2 classes"), printed, strict=True):
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
                )
            )
            runs = [
                first_run(results, "Fig. 2-4", setting.row, name)
                for name in ("ATHENA-FL", "FedAvg")
            ]
            traffic = [None if run is None else until_convergence(run)[1] for run in runs]
            ours = (
                100 * economy(traffic[0], traffic[1])
                if traffic[0] is not None and traffic[1]
                else None
            )
            numbers.append(
                compare_number(
                    row,
                    "from our runs",
                    percent,
                    ours,
                    unit="% of the bytes",
                    deviation=setting.deviation,
                    seeds=int(all(runs)),
                )
            )
    return numbers


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
