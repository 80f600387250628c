"""Time to a target accuracy in rounds that wait for all clients, in rounds that end with the first
replies, and with buffered clusters.

    python -m benchmarks.asynchronous [--seeds 5] [--write docs/asynchronous.md]

Replies take a time from a log-normal distribution with the median 1 s, and one client in ten takes
20 times longer. Data: scikit-learn's digits in four permutations of the labels, 40 clients, and
MNIST in four rotations, 60 clients. All clients take part in every round.

The target of a seed is one point below the final accuracy of its synchronous run. The final
accuracy is the mean over the last tenth of the run. Every run trains as many updates as the
synchronous one, so a run with buffers has more and smaller steps.

The results are kept in ``benchmarks/asynchronous_results.json`` after each run; a run that is there
is not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedkin as fk
from benchmarks.tables import put

RESULTS = Path(__file__).with_name("asynchronous_results.json")
COMMAND = "python -m benchmarks.asynchronous"
DATA: dict[str, Callable[[int], fk.data.FederatedData]] = {
    "digits": lambda seed: fk.planted(
        "digits",
        "label_permutation",
        clusters=4,
        clients=40,
        samples=30,
        test_samples=12,
        seed=seed,
    ),
    "MNIST rotated": lambda seed: fk.planted(
        "mnist", "rotation", clusters=4, clients=60, samples=60, test_samples=20, seed=seed
    ),
}
METHODS: dict[str, Any] = {
    "flexcfl": fk.FlexCFL(clusters=4),
    "ifca": fk.IFCA(clusters=4, weighting="examples"),
}
SETTINGS = (("digits", "flexcfl"), ("digits", "ifca"), ("MNIST rotated", "flexcfl"))
DELAYS: dict[str, Any] = {"spread": 0.5, "slow_share": 0.1, "slow_factor": 20.0}
WAITING: dict[str, Any] = {
    "all replies": fk.FirstReplies(**DELAYS),
    "first 80%": fk.FirstReplies(share=0.8, **DELAYS),
    "buffers of 5": fk.BufferedClusters(buffer=5, **DELAYS),
}
ALL = "all replies"
BUFFER = 5
ROUNDS = 60
POINT = 0.01
Points = list[list[float]]  # seconds and accuracy, of one evaluation after another


def curve(data: str, method: str, waiting: str, seed: int) -> Points:
    """Simulated seconds and accuracy after each evaluated round of a run."""
    clients = DATA[data](seed)
    buffered = isinstance(WAITING[waiting], fk.BufferedClusters)
    # A step of a buffer takes fewer updates than a round, so there are more steps.
    factor = clients.clients // BUFFER if buffered else 1
    run = fk.simulate(
        METHODS[method],
        clients,
        fk.models.mclr(clients),
        rounds=ROUNDS * factor,
        cohort=clients.clients,
        local=fk.SGD(epochs=2, batch_size=10, lr=0.05),
        scoring=fk.Scoring(evaluate_every=max(1, factor // 2)),
        options=[WAITING[waiting]],
        seed=seed,
        callbacks=fk.Progress(False),
    )
    scored = [record for record in run.records if record["accuracy"] is not None]
    return [[record["simulated_seconds"], record["accuracy"]] for record in scored]


def final_accuracy(points: Points) -> float:
    """Mean accuracy over the last tenth of a run."""
    last = max(1, len(points) // 10)
    return float(np.mean([accuracy for _, accuracy in points[-last:]]))


def seconds_to(points: Points, target: float) -> float:
    """Simulated seconds until the target is reached; infinite if it never is."""
    return next((seconds for seconds, accuracy in points if accuracy >= target), np.inf)


def key(data: str, method: str, waiting: str, seed: int) -> str:
    """Name of a run in the results."""
    return f"{data} | {method} | {waiting} | {seed}"


def measure(seeds: int) -> dict[str, Points]:
    """All runs' curves by name, of the file or measured now."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(seeds):
        for data, method in SETTINGS:
            for waiting in WAITING:
                name = key(data, method, waiting, seed)
                if name in results:
                    continue
                results[name] = curve(data, method, waiting, seed)
                RESULTS.write_text(json.dumps(results) + "\n")
                print(name, f"{final_accuracy(results[name]):.3f}", flush=True)
    return results


class Gain(NamedTuple):
    """What a way to wait gains over rounds that wait for all replies.

    Attributes:
        finals: final accuracy of each seed, in percent.
        cells: cells of a table: seeds that reached the target, the median time to it, and how many
            times faster it was reached.
    """

    finals: list[float]
    cells: list[str]


def gain(pairs: Sequence[tuple[Points, Points]]) -> Gain:
    """The gain of a way to wait.

    Args:
        pairs: for each seed, the run that waits for all replies, and the other run.
    """
    finals = list[float]()
    seconds = list[float]()
    faster = list[float]()
    for everyone, points in pairs:
        target = final_accuracy(everyone) - POINT
        finals.append(100 * final_accuracy(points))
        seconds.append(seconds_to(points, target))
        faster.append(seconds_to(everyone, target) / seconds[-1])
    reached = int(np.isfinite(seconds).sum())
    median = f"{np.median(seconds):.0f} s" if reached > len(pairs) / 2 else "not reached"
    times = f"{np.median(faster):.1f} ({min(faster):.1f} to {max(faster):.1f})"
    return Gain(finals, [f"{reached} of {len(pairs)}", median, times])


def row(results: dict[str, Points], data: str, method: str, waiting: str, seeds: int) -> list[str]:
    """A line of the table."""
    pairs = [
        (results[key(data, method, ALL, seed)], results[key(data, method, waiting, seed)])
        for seed in range(seeds)
    ]
    found = gain(pairs)
    spread = (
        f"{np.mean(found.finals):.1f} ± {np.std(found.finals, ddof=1):.1f}" if seeds > 1 else ""
    )
    return [data, method, waiting, spread, *found.cells]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    results = measure(options.seeds)
    head = ["data", "method", "a round waits for", "final accuracy (%)"]
    head += ["reached the target", "median time to it", "times faster"]
    table = [
        row(results, data, method, waiting, options.seeds)
        for data, method in SETTINGS
        for waiting in WAITING
    ]
    print("\n".join(" | ".join(line) for line in [head, *table]))
    if options.write:
        put(options.write, COMMAND, head, table)


if __name__ == "__main__":
    main()
