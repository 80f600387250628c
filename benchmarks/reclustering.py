"""Accuracy, bytes and re-assignments of methods that cluster again while data drift, on the drift
settings of the field benchmark.

    python -m benchmarks.reclustering

Settings, grids and seeds are those of the field benchmark. Each method uses the candidate of its
grid that did best in the stored trials (``python -m papers.benchmark --hours 1`` makes them).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import put_between
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.scenarios.shift import ShiftedData
from fedkin.scenarios.steps import prequential_accuracy
from papers.benchmark.contenders import CONTENDERS
from papers.benchmark.federations import SETTINGS, Setting
from papers.benchmark.queue import SEEDS, STORE, Cell, chosen
from papers.benchmark.runs import simulated

RESULTS = Path(__file__).with_name("reclustering_results.json")
PAGE = Path("docs/monitor.md")
BEGIN = "<!-- reclustering -->\n"
END = "<!-- end of reclustering -->\n"
METHODS = ("IFCA", "FedDrift", "Selective re-clustering")
DRIFTS = ("SINE", "swap-all")


def measured(cell: Cell, trial: int, seed: int) -> dict[str, float]:
    """Accuracy, megabytes, drifts and re-assignments of one run."""
    setting = cell.setting
    run = simulated(
        setting,
        cell.contender,
        candidate=cell.contender.grid(setting)[trial],
        seed=seed,
        validated=False,
    )
    outcome = run.outcome
    last = outcome.records[-1]
    accuracy = last["accuracy"]
    if setting.every:
        accuracy = prequential_accuracy(outcome.records, setting.every)
    return {
        "accuracy": float(accuracy),
        "megabytes": (last["bytes_down"] + last["bytes_up"]) / 1e6,
        "drifts": drifts(setting, run.data, seed),
        "reassignments": sum(record["migrations"] for record in outcome.records),
    }


def drifts(setting: Setting, data: FederatedData, seed: int) -> int:
    """How many times a client that trains gets other data, over all rounds."""
    trained = np.arange(data.clients - setting.newcomers)
    shifting = ShiftedData(data, setting.shift, lambda round: trained)
    total = 0
    for round in range(setting.rounds + 1):
        _, shifted = shifting.at(Stream(seed, round, "scenario"))
        total += int(shifted[trained].sum())
    return total


def table(results: dict[str, Any]) -> str:
    """The means over the seeds, as a table."""
    lines = [
        "| setting | method | accuracy, % | MB | clients that drift | re-assignments |",
        "|---|---|---|---|---|---|",
    ]
    for drift, of_drift in results.items():
        for name, runs in of_drift.items():
            means = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
            cells = (
                f"{100 * means['accuracy']:.1f} | {means['megabytes']:.2f} | "
                f"{means['drifts']:.0f} | {means['reassignments']:.0f}"
            )
            lines.append(f"| {drift} | {name} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all, keep the results, and write the table into the page."""
    settings = {setting.name: setting for setting in SETTINGS}
    contenders = {contender.name: contender for contender in CONTENDERS}
    results: dict[str, Any] = {}
    for drift in DRIFTS:
        for name in METHODS:
            cell = Cell(settings[drift], contenders[name])
            trial = chosen(cell, STORE)
            if trial is None:
                raise ConfigError(f"{STORE} has no trials of {name} on {drift}")
            runs = [measured(cell, trial, seed) for seed in SEEDS]
            results.setdefault(drift, {})[name] = runs
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    put_between(PAGE, BEGIN, END, table(results))
    print(table(results))


if __name__ == "__main__":
    main()
