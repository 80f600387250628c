"""FedAvg's rounds in other frameworks and in fedkin, in turns. The table is written into
docs/benchmarks-methods.md.

    python -m benchmarks.frameworks [--flower PYTHON] [--fluke PYTHON] [--turns 3] [--rounds 20]
    [--write]

1,000 clients of 60 samples in the mean, cohorts of 20, one local epoch in batches of 10,
784-128-10, no evaluation. Each framework runs with an interpreter that has it and PyTorch
installed, and is left out without one. The figures are median seconds of the rounds after the first
three, and the ratio of each turn. A loop in PyTorch runs with one thread, and with two.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import fedkin as fk
from benchmarks.tables import put
from benchmarks.throughput import PAGE
from benchmarks.turns import federated
from benchmarks.work import BATCH, LR, clients

CLIENTS = 1000
COHORT = 20
FIRST = 3
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("--flower", metavar="PYTHON", help="with flwr[simulation] and torch")
    parser.add_argument("--fluke", metavar="PYTHON", help="with fluke-fl and torch")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    peers = {
        f"PyTorch loop, {n} thread{'s' * (n > 1)}": (sys.executable, "pytorch", n) for n in (1, 2)
    }
    for name, python in (("Flower simulation", options.flower), ("fluke", options.fluke)):
        if python:
            peers[name] = (python, name.split()[0].lower(), 1)
    own: dict[str, list[float]] = {name: [] for name in peers}
    other: dict[str, list[float]] = {name: [] for name in peers}
    ours(options.rounds)
    for _ in range(options.turns):
        for name, peer in peers.items():
            own[name].append(ours(options.rounds))
            other[name].append(theirs(*peer, options.rounds))
    rows = [row(name, own[name], other[name]) for name in peers]
    for cells in rows:
        print(", ".join(cells))
    if options.write:
        put(PAGE, "frameworks", ("framework", "fedkin's round (s)", "its round (s)", "ratio"), rows)


def row(name: str, own: list[float], other: list[float]) -> list[str]:
    """A line of the table: medians over the turns, and the median and range of the ratios."""
    ratios = sorted(theirs / ours for ours, theirs in zip(own, other, strict=True))
    span = f"**{statistics.median(ratios):.1f}** ({ratios[0]:.1f}-{ratios[-1]:.1f})"
    return [name, f"{statistics.median(own):.4f}", f"{statistics.median(other):.4f}", span]


def ours(rounds: int) -> float:
    """Median seconds of fedkin's rounds: whole rounds of ``fk.simulate``, with their records."""
    stamps: list[float] = []
    data = federated(clients(CLIENTS))
    fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mlp(data),
        rounds=rounds,
        cohort=COHORT,
        local=fk.SGD(epochs=1, batch_size=BATCH, lr=LR),
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=lambda _: stamps.append(time.perf_counter()),
    )
    return float(np.median(np.diff(stamps)[FIRST:-1]))


def theirs(python: str, peer: str, threads: int, rounds: int) -> float:
    """Median seconds of a framework's rounds, measured in a new process."""
    with tempfile.TemporaryDirectory() as home:
        command = [python, "-m", "benchmarks.framework_peers", peer]
        numbers = [str(n) for n in (CLIENTS, COHORT, rounds, threads)]
        environment = {**os.environ, **OFFLINE, "FLWR_HOME": home}
        environment["PATH"] = f"{os.path.dirname(os.path.abspath(python))}:{environment['PATH']}"
        done = subprocess.run(
            [*command, *numbers], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{peer} failed:\n{done.stderr[-2000:]}")
    return float(np.median(json.loads(done.stdout.splitlines()[-1])["seconds"][FIRST:]))


if __name__ == "__main__":
    main()
