"""The value of late replies: lost, or used in a later round, up to an age.

    python -m benchmarks.late_replies [--seeds 5] [--share 0.5] [--write docs/scenarios.md]

Data: scikit-learn's digits, 60 clients with two classes each (a client with unusual data is
missed), and MNIST in four rotations of 15 clients; softmax regression, cohorts of 20, 5 local
epochs. Half of the replies come late by a round or more, half of these by two or more, and so on.
The late clients are drawn again in each round, or are always the same. The benchmark prints the
mean accuracy of all clients over rounds 11 to 30 and over seeds, with the standard deviation over
seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedkin as fk
from benchmarks.tables import put

DATA: dict[str, Callable[[int], fk.FederatedData]] = {
    "digits": lambda seed: fk.data.digits(partition="power_law", classes_per_client=2, seed=seed),
    "MNIST rotated": lambda seed: fk.planted(
        "mnist", "rotation", clusters=4, clients=60, samples=60, test_samples=20, seed=seed
    ),
}
METHODS: dict[str, Any] = {
    "fedavg": fk.FedAvg(),
    "flexcfl": fk.FlexCFL(clusters=4),
    "ifca": fk.IFCA(clusters=4, weighting="examples"),
}
USES: dict[str, dict[str, Any]] = {
    "lost": {"max_age": 0},
    "up to 1 round old": {"max_age": 1},
    "up to 3": {"max_age": 3},
    "up to 3, not shortened": {"max_age": 3, "exponent": 0.0},
}
ROUNDS = 30
FIRST = 11


def accuracy(data: str, method: str, late: fk.LateReplies | None, seed: int) -> float:
    """Mean over clients and the rounds from the eleventh on."""
    clients = DATA[data](seed)
    options = [] if late is None else [late]
    model = fk.models.mclr(clients)
    run = fk.simulate(
        METHODS[method],
        clients,
        model,
        rounds=ROUNDS,
        cohort=20,
        local=fk.SGD(epochs=5, batch_size=10, lr=0.05),
        options=options,
        seed=seed,
        callbacks=fk.Progress(False),
    )
    return float(np.mean([record["accuracy"] for record in run.records[FIRST:]]))


def rows(data: str, method: str, share: float, seeds: int) -> list[list[str]]:
    """Two lines of the table."""
    in_time = cell(data, method, None, seeds)
    lines = []
    for who, same in (("drawn again", False), ("the same", True)):
        ways = [fk.LateReplies(share=share, same=same, **use) for use in USES.values()]
        lines.append(
            [data, method, who, in_time, *(cell(data, method, way, seeds) for way in ways)]
        )
    return lines


def cell(data: str, method: str, late: fk.LateReplies | None, seeds: int) -> str:
    """Mean and standard deviation over seeds, in percent."""
    values = [100 * accuracy(data, method, late, seed) for seed in range(seeds)]
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    head = ["data", "method", "late clients", "all in time", *USES]
    table = list[list[str]]()
    print(" | ".join(head))
    for data in DATA:
        for method in METHODS:
            table += rows(data, method, options.share, options.seeds)
            print("\n".join(" | ".join(line) for line in table[-2:]), flush=True)
    if options.write:
        put(options.write, "python -m benchmarks.late_replies", head, table)


if __name__ == "__main__":
    main()
