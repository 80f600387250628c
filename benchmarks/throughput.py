"""Clients per second and seconds per round of every method, on 1,000 clients with MNIST's images: 784-128-10, and the
CNNs that FlexCFL's authors have for MNIST and for FEMNIST. The tables are written into docs/benchmarks-methods.md.

    python -m benchmarks.throughput [--models mlp,cnn,femnist] [--methods fedavg,ifca,...] [--rounds 12] [--write]

Two classes of MNIST per client, cohorts of 20, one local epoch in batches of 10; only the rounds are counted, without
scoring, of a second run: a short one before compiles all programs. After each method FedAvg runs again, and the ratio
of the two medians is what says something about another machine. The short run counts how often a round goes through
samples (benchmarks/passes.py): "passes" are a method's beside FedAvg's, and the time of a pass is what is left of the
ratio when they are divided out. A method's clusters are found in round 0 (the start), as its defaults have it, with 4
clusters where it asks for a number.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedkin as fk
from benchmarks.passes import counted
from benchmarks.tables import put, rows_in
from fedkin.config import registry
from fedkin.core.errors import FedkinError

MODELS = {"mlp": {"name": "mlp"}, "cnn": {"name": "cnn"}, "femnist": {"name": "cnn", "variant": "femnist"}}
PAGE = Path("docs/benchmarks-methods.md")
COHORT, FIRST = 20, 4  # rounds before FIRST compile programs
SECONDS = ("seconds to the first round", "seconds a round", "clients a second")
HEAD = ("method", *SECONDS, "FedAvg's time", "passes", "time of a pass")


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
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--methods", default=",".join(registry.methods()))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    data = fk.data.mnist(clients=options.clients)
    for name in options.models.split(","):
        model = registry.make(registry.models(), MODELS[name], data)
        one = passes("fedavg", data, model)
        for method in options.methods.split(","):
            try:
                cells = row(method, data, model, options.rounds, one)
            except FedkinError as error:  # it does not fit the data or the model
                print(f"{name}: {method} is left out: {error}", flush=True)
                continue
            print(f"{name}: " + ", ".join(cells), flush=True)
            if options.write:
                write(options.page, name, cells)


def write(page: Path, name: str, cells: list[str]) -> None:
    """Put a method's row into the table of a model. The other methods keep theirs, with a dash for what an older table
    has no column for.

    Args:
        page: the file.
        name: of the model.
        cells: the row.
    """
    table = rows_in(page, f"throughput {name}")
    known = {method: old + ["-"] * (len(HEAD) - len(old)) for method, old in table.items()}
    known[cells[0]] = cells
    put(page, f"throughput {name}", HEAD, [known[method] for method in registry.methods() if method in known])


def row(method: str, data: fk.FederatedData, model: Any, rounds: int, one: float) -> list[str]:
    """The figures of a method, beside FedAvg right after it; ``one`` is how many gradients a round of FedAvg has."""
    factor = passes(method, data, model) / one
    own = speed(method, data, model, rounds)
    beside = speed("fedavg", data, model, rounds)
    return [
        method,
        f"{own.start:.1f}",
        f"{own.round:.3f}",
        f"{own.clients:.0f}",
        f"x {own.round / beside.round:.2f}",
        f"{factor:.2f}",
        f"x {own.round / beside.round / factor:.2f}",
    ]


def passes(method: str, data: fk.FederatedData, model: Any) -> float:
    """Gradients of samples in the first round that is timed, of a short run, which compiles all programs."""
    totals: list[float] = []
    with counted() as work:
        simulate(method, data, model, FIRST + 2, lambda _: totals.append(work.total))
    return statistics.median(np.diff(totals)[FIRST:-1])


def speed(method: str, data: fk.FederatedData, model: Any, rounds: int) -> Speed:
    """Run a method, and time its rounds."""
    stamps: list[float] = []
    begin = time.perf_counter()
    simulate(method, data, model, rounds, lambda _: stamps.append(time.perf_counter()))
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    return Speed(stamps[0] - begin, statistics.median(seconds[FIRST:-1]))


def simulate(method: str, data: fk.FederatedData, model: Any, rounds: int, on_round: Callable[[Any], None]) -> None:
    """A run of a method with its defaults, and four clusters where it asks for a number."""
    values: dict[str, Any] = {"name": method}
    options = registry.resolve("method", registry.methods(), values, lambda key: key)
    if "clusters" in options and method not in ("fedrep", "ditto", "apfl", "pfedme"):
        options["clusters"] = 4
    fk.simulate(
        registry.make(registry.methods(), options),
        data,
        model,
        rounds=rounds,
        cohort=COHORT,
        local=fk.SGD(epochs=1, batch_size=10, lr=0.03),
        evaluate_every=0,
        on_round=on_round,
    )


if __name__ == "__main__":
    main()
