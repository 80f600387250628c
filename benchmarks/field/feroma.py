"""The cost of FEROMA's mixing relative to FedAvg's round: a lower bound for a round of n clients
with M solutions, from the product of n x M weights with M x P solutions alone. There is no bar. The
figures show from which M on 1.3 times FedAvg's time of a pass is out of reach.

    python -m benchmarks.field.feroma [--solutions 400,1000] [--clients 1000] [--cohort 20]
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from benchmarks.throughput import FIRST, federation, passes, speed
from benchmarks.turns import take_turns

TURNS = 9
ROUNDS = 24


def main() -> None:
    """FedAvg's round, FEROMA's passes, and for each M the product, a copy of the solutions, and the
    least ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field.feroma", description=__doc__)
    parser.add_argument("--solutions", default="400,1000")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--cohort", type=int, default=20)
    options = parser.parse_args()
    data, model = federation(options.clients, "mlp")
    feroma, fedavg = (
        passes(method=method, data=data, model=model, rounds=FIRST + 3, cohort=options.cohort)
        for method in ("feroma", "fedavg")
    )
    factor = feroma.mean() / fedavg.mean()
    trained = factor * statistics.median(
        speed(method="fedavg", data=data, model=model, rounds=ROUNDS, cohort=options.cohort).round
        for _ in range(3)
    )
    print(
        f"FedAvg's round times the {factor:.2f} passes of FEROMA's: {1000 * trained:.1f} ms",
        flush=True,
    )
    for solutions in map(int, options.solutions.split(",")):
        product, copy = mixing(options.cohort, solutions, model.spec.parameters)
        least = 1 + product / trained
        copied = 1 + (product + copy) / trained
        print(
            f"M = {solutions}: product {1000 * product:.1f} ms, copy {1000 * copy:.1f} ms; ", end=""
        )
        print(f"time of a pass at least x {least:.2f}, with the copy x {copied:.2f}", flush=True)


def mixing(n: int, M: int, P: int) -> tuple[float, float]:
    """Median seconds of the mixes of n clients, and of a copy of the M solutions, measured in
    turns."""
    generator = np.random.default_rng(0)
    weights = generator.random((n, M), np.float32)
    solutions = generator.standard_normal((M, P), np.float32)
    times = take_turns(
        {"product": lambda _: weights @ solutions, "copy": lambda _: solutions.copy()}, TURNS
    )
    return float(np.median(times["product"])), float(np.median(times["copy"]))


if __name__ == "__main__":
    main()
