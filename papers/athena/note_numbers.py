"""Numbers of the note on hierarchical clustering and ATHENA-FL that are in no single cell of a
table."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from statistics import mean
from typing import Any

from papers.athena.numbers import DETECTORS, first_run
from papers.athena.recipes import (
    CALIBRATED,
    CLUSTERINGS,
    COMBINED,
    GIVEN,
    PER_CLUSTER,
    SMALL_CNN,
)
from papers.number_text import extreme, format_count, format_number, span
from papers.reproduction_marks import Results

Numbers = dict[str, str]
LAST = 5  # rounds of a mean at the end
SHIRT = 6  # a class of Fashion-MNIST


def athena(results: Results) -> Numbers:
    """Of all three tables."""
    return _ranges(results) | _per_cluster(results) | _combined_detectors(results)


def _ranges(results: Results) -> Numbers:
    """Of the eps that find the clusters."""
    numbers: Numbers = {}
    for model, epochs in (("cnn", "5"), ("cnn", "10"), ("cnn", "20"), ("mobilenet_v2", "10")):
        ranges = [
            (first_run(results, "eps", CLUSTERINGS[split, model].row, epochs) or {}).get("range")
            or [nan, nan]
            for split in ("IID", "2 classes", "5 classes")
        ]
        lows = [nan if low is None else low for low, _ in ranges]
        highs = [high for _, high in ranges if high is not None]
        name = f"{epochs} epochs" if model == "cnn" else f"{epochs} epochs, MobileNetV2"
        numbers[f"IID eps from, {name}"] = format_number(lows[0], ".4f")
        numbers[f"eps, {name}"] = span([extreme(max, lows), extreme(min, highs)], ".4f")
    for epochs in ("10", "20"):
        iid = first_run(results, "eps", CLUSTERINGS["IID", "cnn"].row, epochs)
        numbers[f"IID noise, {epochs} epochs"] = format_number(
            iid["dbscan"].count(-1) if iid else nan, "d"
        )
    for algorithm in ("dbscan", "optics"):
        found = [_finds_clusters(results, key, algorithm) for key in CLUSTERINGS]
        numbers[f"{algorithm.upper()} finds"] = format_count(sum(found))
    return numbers


def _finds_clusters(results: Results, key: tuple[str, str], algorithm: str) -> bool:
    """Whether an algorithm finds the clusters of a split exactly, without noise, after ten local
    epochs. The clusters are blocks of consecutive clients."""
    setting = CLUSTERINGS[key]
    run = first_run(results, "eps", setting.row, "10")
    if run is None:
        return False
    labels = run[algorithm]
    true_clusters = [client * setting.clusters // len(labels) for client in range(len(labels))]
    pairs = set(zip(labels, true_clusters, strict=True))
    return -1 not in labels and len(pairs) == len(set(labels)) == setting.clusters


def _per_cluster(results: Results) -> Numbers:
    """Of Figure 1."""
    numbers: Numbers = {}
    for split, setting in PER_CLUSTER.items():
        runs = [
            first_run(results, "Fig. 1", setting.row, column)
            for column in ("clustered", "one model")
        ]
        clustered, single_model = map(_curve, runs)
        sizes = runs[0]["sizes"] if runs[0] else None
        numbers |= {
            f"clusters, {split}": format_number(clustered[-1], ".1f"),
            f"one model, {split}": format_number(single_model[-1], ".1f"),
            f"gain by clusters, {split}": format_number(clustered[-1] - single_model[-1], ".0f"),
            f"one model in round 8, {split}": format_number(_at(single_model, 8), ".0f"),
            f"one model at its best, {split}": format_number(max(single_model), ".0f"),
            f"clusters after round 10, {split}": format_number(
                max(clustered) - _at(clustered, 10), ".1f"
            ),
            f"clients alone, {split}": format_number(sizes.count(1) if sizes else nan, "d"),
        }
        for first in (6, 36):
            gaps = [_at(clustered, n) - _at(single_model, n) for n in range(first, first + LAST)]
            name = f"lead of clusters in rounds {first} to {first + LAST - 1}, {split}"
            numbers[name] = format_number(mean(gaps), ".0f")
    return numbers


def _combined_detectors(results: Results) -> Numbers:
    """Of Figures 2 to 4."""
    numbers: Numbers = {}
    leads: list[tuple[float, float]] = []
    gains: list[float] = []  # by scaling
    for (data, split), setting in COMBINED.items():
        title = f"{data}, {split}"
        columns = {"detectors": GIVEN, "scaled": CALIBRATED, "small CNN": SMALL_CNN}
        runs = {
            name: first_run(results, "Fig. 2-4", setting.row, column)
            for name, column in columns.items()
        }
        last = {name: _clients(run) for name, run in runs.items()}
        late = {name: mean(_curve(run)[-LAST:]) for name, run in runs.items()}
        detectors = _detectors(runs["detectors"])
        gains.append(late["scaled"] - late["detectors"])
        leads.append((last["detectors"] - last["small CNN"], last["scaled"] - last["small CNN"]))
        for name, run in runs.items():
            numbers |= {
                f"{name}, {title}": format_number(last[name], ".0f"),
                f"{name} late, {title}": format_number(late[name], ".0f"),
                f"best {name}, {title}": format_number(max(_curve(run)), ".0f"),
                f"{name} in round 12, {title}": format_number(_at(_curve(run), 12), ".0f"),
            }
        numbers |= {
            f"gain, {title}": format_number(last["detectors"] - last["small CNN"], ".0f"),
            f"late gain, {title}": format_number(late["detectors"] - late["small CNN"], ".0f"),
            f"detectors in round 2, {title}": format_number(
                _at(_curve(runs["detectors"]), 2), ".0f"
            ),
            f"bytes of scaled, {title}": format_number(
                _bytes(runs["scaled"]) / _bytes(runs["detectors"]), ".1f"
            ),
            f"bytes of detectors, {title}": format_number(
                _bytes(runs["detectors"]) / _bytes(runs["small CNN"]), ".1f"
            ),
            f"detector of class {SHIRT}, {title}": format_number(detectors[SHIRT], ".0f"),
            f"scaled detector of class {SHIRT}, {title}": format_number(
                _detectors(runs["scaled"])[SHIRT], ".0f"
            ),
            f"other detectors, {title}": span(detectors[:SHIRT] + detectors[SHIRT + 1 :], ".0f"),
        }
    run = [lead for lead in leads if not isnan(sum(lead))]
    numbers["late gains of scaling"] = span([gain for gain in gains if not isnan(gain)], ".1f")
    numbers["rows, detectors"] = format_count(len(run))
    for i, name in enumerate(("detectors", "scaled")):
        numbers[f"ahead, {name}"] = format_count(sum(lead[i] > 0 for lead in run), len(run))
    return numbers


def _curve(run: Mapping[str, Any] | None) -> list[float]:
    """Accuracy over the rounds."""
    return [100 * value for value in run["curve"] if value is not None] if run else [nan]


def _at(curve: list[float], round: int) -> float:
    return curve[round] if len(curve) > round else nan


def _bytes(run: Mapping[str, Any] | None) -> float:
    """All bytes, both ways, up to the last round."""
    return sum(run["bytes"][-1]) if run else nan


def _clients(run: Mapping[str, Any] | None) -> float:
    """Mean accuracy of the clients in the last round."""
    return 100 * mean(run["clients"]) if run else nan


def _detectors(run: Mapping[str, Any] | None) -> list[float]:
    """Accuracy of each detector in the last round."""
    return (
        [100 * accuracy for accuracy in run["detectors"][-1]]
        if run and "detectors" in run
        else [nan] * DETECTORS
    )
