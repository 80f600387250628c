"""Clients per second and seconds per round of every method, on 1,000 clients with MNIST's images: 784-128-10, and the
CNN of FEMNIST. The tables are written into docs/benchmarks-methods.md.

    python -m benchmarks.throughput [--models mlp,cnn] [--methods fedavg,ifca,...] [--rounds 12] [--write]

Two classes of MNIST per client, cohorts of 20, one local epoch in batches of 10; only the rounds are counted, without
scoring, of a second run: a short one before compiles all programs. After each method FedAvg runs again, and the ratio
of the two medians is what says something about another machine. A method's clusters are found in round 0 (the start),
as its defaults have it, with 4 clusters where it asks for a number.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import fedkin as fk
from benchmarks.tables import put
from fedkin.config import registry
from fedkin.core.errors import FedkinError

PAGE = Path("docs/benchmarks-methods.md")
COHORT, FIRST = 20, 4  # rounds before FIRST compile programs
HEAD = ("method", "seconds to the first round", "seconds a round", "clients a second", "FedAvg's time")


class Speed(NamedTuple):
    """What a method took: seconds to round 0, the median of its rounds, and clients of a cohort per second."""

    start: float
    round: float

    @property
    def clients(self) -> float:
        return COHORT / self.round


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--models", default="mlp,cnn")
    parser.add_argument("--methods", default=",".join(registry.methods()))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE}")
    options = parser.parse_args()
    data = fk.data.mnist(clients=options.clients)
    for name in options.models.split(","):
        rows = []
        model = registry.make(registry.models(), {"name": name}, data)
        speed("fedavg", data, model, options.rounds)
        for method in options.methods.split(","):
            try:
                rows.append(row(method, data, model, options.rounds))
            except FedkinError as error:  # it does not fit the data or the model
                print(f"{name}: {method} is left out: {error}", flush=True)
                continue
            print(f"{name}: " + ", ".join(rows[-1]), flush=True)
            if options.write:
                put(PAGE, f"throughput {name}", HEAD, rows)


def row(method: str, data: fk.FederatedData, model: Any, rounds: int) -> list[str]:
    """The figures of a method, beside FedAvg right after it."""
    speed(method, data, model, FIRST + 2)  # compiles
    own = speed(method, data, model, rounds)
    beside = speed("fedavg", data, model, rounds)
    return [
        method,
        f"{own.start:.1f}",
        f"{own.round:.3f}",
        f"{own.clients:.0f}",
        f"x {own.round / beside.round:.2f}",
    ]


def speed(method: str, data: fk.FederatedData, model: Any, rounds: int) -> Speed:
    """Run a method, and time its rounds."""
    values: dict[str, Any] = {"name": method}
    options = registry.resolve("method", registry.methods(), values, lambda key: key)
    if "clusters" in options and method not in ("fedrep", "ditto", "apfl", "pfedme"):
        options["clusters"] = 4
    stamps: list[float] = []
    begin = time.perf_counter()
    fk.simulate(
        registry.make(registry.methods(), options),
        data,
        model,
        rounds=rounds,
        cohort=COHORT,
        local=fk.SGD(epochs=1, batch_size=10, lr=0.03),
        evaluate_every=0,
        on_round=lambda _: stamps.append(time.perf_counter()),
    )
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    return Speed(stamps[0] - begin, statistics.median(seconds[FIRST:-1]))


if __name__ == "__main__":
    main()
