"""Numbers of the note on hierarchical clustering and ATHENA-FL that are in no single cell of a
table."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from statistics import mean
from typing import Any

from papers.athena.numbers import finds_true_clusters, first_run
from papers.athena.recipes import (
    CALIBRATED,
    CLUSTERINGS,
    COMBINED,
    GIVEN,
    HALF,
    PER_CLUSTER,
    SMALL_CNN,
)
from papers.number_text import extreme, format_count, format_number, span
from papers.reproduction_marks import Results

Numbers = dict[str, str]
LATE = range(36, 41)  # rounds of a mean at the end
EPOCHS = "10"  # local epochs of the clustering round


def athena(results: Results) -> Numbers:
    """Of all three tables."""
    return _ranges(results) | _per_cluster(results) | _combined_detectors(results)


def _ranges(results: Results) -> Numbers:
    """Of the eps that find the clusters."""
    of_splits = [
        first_run(results, "eps", CLUSTERINGS[split, "mobilenet_v2"].row, EPOCHS)
        for split in ("IID", "2 classes", "5 classes")
    ]
    ranges = [run["range"] if run and run["range"] else [nan, nan] for run in of_splits]
    lows = [nan if low is None else low for low, _ in ranges]
    highs = [high for _, high in ranges if high is not None]
    ends = [extreme(max, lows), extreme(min, highs)]
    numbers = {f"eps, {EPOCHS} epochs, MobileNetV2": span(ends, ".4f")}
    for algorithm in ("dbscan", "optics"):
        runs = [
            (setting.clusters, first_run(results, "eps", setting.row, EPOCHS))
            for setting in CLUSTERINGS.values()
        ]
        found = [run and finds_true_clusters(run[algorithm], clusters) for clusters, run in runs]
        numbers[f"{algorithm.upper()} finds"] = format_count(found.count(True))
    return numbers


def _per_cluster(results: Results) -> Numbers:
    """Of Figure 1."""
    numbers: Numbers = {}
    for split in ("2 classes", "5 classes"):
        row = PER_CLUSTER[split].row
        clustered, single = (_curve(first_run(results, "Fig. 1", row, name)) for name in HALF)
        gaps = [_at(clustered, n) - _at(single, n) for n in LATE]
        rounds = f"{LATE[0]} to {LATE[-1]}"
        name = f"lead of clusters in rounds {rounds}, {split}"
        numbers[name] = format_number(mean(gaps), ".0f")
        if split == "2 classes":
            numbers[f"clusters, {split}"] = format_number(clustered[-1], ".1f")
            numbers[f"one model, {split}"] = format_number(single[-1], ".1f")
    return numbers


def _combined_detectors(results: Results) -> Numbers:
    """Of Figures 2 to 4: on how many rows the detectors are ahead of the small CNN in the last
    round."""
    leads: list[tuple[float, float]] = []
    for setting in COMBINED.values():
        detectors, scaled, small = (
            _clients(first_run(results, "Fig. 2-4", setting.row, column))
            for column in (GIVEN, CALIBRATED, SMALL_CNN)
        )
        leads.append((detectors - small, scaled - small))
    run = [lead for lead in leads if not isnan(sum(lead))]
    return {
        "rows, detectors": format_count(len(run)),
        "ahead, detectors": format_count(sum(lead > 0 for lead, _ in run), len(run)),
        "ahead, scaled": format_count(sum(lead > 0 for _, lead in run), len(run)),
    }


def _curve(run: Mapping[str, Any] | None) -> list[float]:
    """Accuracy over the rounds."""
    return [100 * value for value in run["curve"] if value is not None] if run else [nan]


def _at(curve: list[float], round: int) -> float:
    return curve[round] if len(curve) > round else nan


def _clients(run: Mapping[str, Any] | None) -> float:
    """Mean accuracy of the clients in the last round."""
    return 100 * mean(run["clients"]) if run else nan
