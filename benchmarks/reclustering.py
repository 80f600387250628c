"""Accuracy, bytes and re-assignments of methods that cluster again while data drift, on the drift
settings of the field benchmark.

    python -m benchmarks.reclustering

The settings, their grids and the chosen candidates are those of the field benchmark
(``python -m papers.benchmark``), so its trials of these methods must be stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config.plan import Plan
from fedkin.core.training import LocalTraining
from fedkin.run import loop
from fedkin.scenarios.population import Population
from fedkin.scenarios.steps import prequential_accuracy
from fedkin.simulation.engine import SimulatedWorld
from papers.benchmark.contenders import CONTENDERS, STEPS, Contender
from papers.benchmark.federations import SETTINGS, Setting
from papers.benchmark.runs import BATCH

RESULTS = Path(__file__).with_name("reclustering_results.json")
PAGE = Path("docs/monitor.md")
BEGIN = "<!-- reclustering -->\n"
END = "<!-- end of reclustering -->\n"
METHODS = ("IFCA", "FedDrift", "Selective re-clustering")
DRIFTS = ("SINE", "swap-all")
SEEDS = range(5)
RATE = 1  # the middle candidate of each grid, which all three choose on validation samples


def measured(setting: Setting, contender: Contender, seed: int) -> dict[str, float]:
    """Accuracy, megabytes and re-assignments of one run."""
    candidate = contender.grid(setting)[RATE]
    data = setting.data(seed, validated=False)
    work = LocalTraining(
        steps=STEPS // contender.passes(setting), batch_size=BATCH, lr=candidate.rate
    )
    later = Population(arrivals={setting.rounds + 1: setting.newcomers})
    world = SimulatedWorld(data, setting.model(data), work, population=later, shift=setting.shift)
    plan = Plan(
        setting.rounds,
        data.clients - setting.newcomers,
        seed,
        evaluate_every=setting.every,
        checkpoint_every=setting.rounds,
    )
    outcome = loop.run(world, candidate.method, plan)
    last = outcome.records[-1]
    accuracy = last["accuracy"]
    if setting.every:
        accuracy = prequential_accuracy(outcome.records, setting.every)
    return {
        "accuracy": float(accuracy),
        "megabytes": (last["bytes_down"] + last["bytes_up"]) / 1e6,
        "reassignments": sum(record["migrations"] for record in outcome.records),
    }


def table(results: dict[str, Any]) -> str:
    """The means over the seeds, as a table."""
    lines = ["| setting | method | accuracy, % | MB | re-assignments |", "|---|---|---|---|---|"]
    for drift, of_drift in results.items():
        for name, runs in of_drift.items():
            means = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
            cells = (
                f"{100 * means['accuracy']:.1f} | {means['megabytes']:.2f} | "
                f"{means['reassignments']:.0f}"
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
            runs = [measured(settings[drift], contenders[name], seed) for seed in SEEDS]
            results.setdefault(drift, {})[name] = runs
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + table(results) + END + after)
    print(table(results))


if __name__ == "__main__":
    main()
