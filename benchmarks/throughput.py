"""Clients per second and seconds per round of every method, on 1,000 clients with MNIST's images:
784-128-10, and the CNN that FlexCFL's authors have for FEMNIST. The tables are written into
docs/benchmarks-methods.md.

    python -m benchmarks.throughput [--models mlp,femnist] [--methods fedavg,ifca,...] [--rounds 12]
        [--clients 1000] [--cohort 20] [--write]

Two classes of MNIST per client, cohorts of 20, one local epoch in batches of 10, without scoring.
Each method runs twice. The first run compiles all programs, and the rounds of the second are timed.
There are 100 peers, and all of them take part, as their methods require. After each method FedAvg
runs again, with the same clients and cohorts. The ratio of the two medians applies to other
machines too. The first run counts how often the timed rounds go through samples
(benchmarks/passes.py): "passes" is a method's count divided by FedAvg's, and the time of a pass is
the ratio divided by the passes. If a method's rounds differ in their passes (it looks for clusters
in some), its time is the mean of the rounds, as are its passes. Methods have their defaults, so
clusters are found in round 0 (the start), with 4 clusters if the method needs a number. OPTIONS has
all other settings.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import fedkin as fk
from benchmarks.passes import counted
from benchmarks.tables import put, rows_in
from fedkin.config import registry
from fedkin.core.errors import FedkinError
from fedkin.core.requirements import requirements_of

MODELS = {"mlp": {"name": "mlp"}, "femnist": {"name": "cnn", "variant": "femnist"}}
PAGE = Path("docs/benchmarks-methods.md")
CLIENTS = 1000
PEERS = 100
COHORT = 20
FIRST = 4  # rounds before it compile programs
STEADY = 1.2  # passes of rounds, relative to FedAvg's, may differ by this factor at most
OPTIONS = {
    "pacfl": {"threshold": 55.0},  # ten clusters; with its 3.5 degrees nearly every client is one
    "cflgp": {
        "last_query": FIRST
    },  # so that its clusters are found before the rounds that are timed
    "feroma": {"latest": FIRST - 1},  # so that it mixes in all rounds that are timed
}
SECONDS = ("seconds to the first round", "seconds a round", "clients a second")
HEAD = ("method", *SECONDS, "FedAvg's time", "passes", "time of a pass")


class Speed(NamedTuple):
    """Seconds of a method: up to round 0, and of a round."""

    start: float
    round: float


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--methods", default=",".join(registry.methods()))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clients", type=int, help="by default 1000, and 100 for peers")
    parser.add_argument("--cohort", type=int, help="by default 20, and all clients for peers")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    for name in options.models.split(","):
        for method in options.methods.split(","):
            together = requirements_of(make(method)).rounds.full_cohort
            clients = options.clients or (PEERS if together else CLIENTS)
            cohort = options.cohort or (clients if together else COHORT)
            try:
                of_fedavg = passes_of_fedavg(clients, name, options.rounds, cohort)
                data, model = federation(clients, name)
                cells = row(
                    method=method,
                    data=data,
                    model=model,
                    rounds=options.rounds,
                    cohort=cohort,
                    of_fedavg=of_fedavg,
                )
            except FedkinError as error:  # it does not fit the data or the model
                print(f"{name}: {method} is left out: {error}", flush=True)
                continue
            print(f"{name}: " + ", ".join(cells), flush=True)
            if options.write:
                write(options.page, name, cells)


def write(page: Path, name: str, cells: list[str]) -> None:
    """Put a method's row into the table of a model. The rows of other methods stay, with a dash in
    columns that an older table does not have.

    Args:
        page: the file.
        name: of the model.
        cells: the row.
    """
    table = rows_in(page, f"throughput {name}")
    rows_of_methods = {
        method: old + ["-"] * (len(HEAD) - len(old)) for method, old in table.items()
    }
    rows_of_methods[cells[0]] = cells
    put(
        page,
        f"throughput {name}",
        HEAD,
        [rows_of_methods[method] for method in registry.methods() if method in rows_of_methods],
    )


@cache
def federation(clients: int, model: str) -> tuple[fk.FederatedData, Any]:
    """MNIST's images, divided among the clients, and a model."""
    data = fk.data.mnist(clients=clients)
    return data, registry.make(registry.models(), MODELS[model], data)


@cache
def passes_of_fedavg(clients: int, model: str, rounds: int, cohort: int) -> Float[np.ndarray, "_"]:
    """The number of gradients of samples in each timed round of FedAvg."""
    return passes("fedavg", *federation(clients, model), rounds, cohort)


def row(
    method: str,
    data: fk.FederatedData,
    model: Any,
    rounds: int,
    cohort: int,
    of_fedavg: Float[np.ndarray, "_"],
) -> list[str]:
    """The row of a method, with FedAvg measured right after it.

    Args:
        method: its name.
        data: all clients.
        model: of the data.
        rounds: of a run.
        cohort: clients of a round.
        of_fedavg: gradients of samples in FedAvg's timed rounds.
    """
    counts = passes(method=method, data=data, model=model, rounds=rounds, cohort=cohort)
    factor = counts.mean() / of_fedavg.mean()
    by_round = counts / of_fedavg
    steady = by_round.max() < STEADY * by_round.min()
    seconds = speed(
        method=method, data=data, model=model, rounds=rounds, cohort=cohort, steady=steady
    )
    other = speed(method="fedavg", data=data, model=model, rounds=rounds, cohort=cohort)
    return [
        method,
        f"{seconds.start:.1f}",
        f"{seconds.round:.3f}",
        f"{cohort / seconds.round:.0f}",
        f"x {seconds.round / other.round:.2f}",
        f"{factor:.2f}",
        f"x {seconds.round / other.round / factor:.2f}",
    ]


def passes(
    method: str, data: fk.FederatedData, model: Any, rounds: int, cohort: int
) -> Float[np.ndarray, "_"]:
    """Gradients of samples in each round that is timed, of a run that compiles all programs."""
    totals: list[float] = []
    with counted() as work:
        simulate(
            method=method,
            data=data,
            model=model,
            rounds=rounds,
            cohort=cohort,
            on_round=lambda _: totals.append(work.total),
        )
    return np.diff(totals)[FIRST:-1]


def speed(
    method: str, data: fk.FederatedData, model: Any, rounds: int, cohort: int, steady: bool = True
) -> Speed:
    """Run a method, and time its rounds: the median if they are ``steady``, else the mean."""
    stamps: list[float] = []
    begin = time.perf_counter()
    simulate(
        method=method,
        data=data,
        model=model,
        rounds=rounds,
        cohort=cohort,
        on_round=lambda _: stamps.append(time.perf_counter()),
    )
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)][
        FIRST:-1
    ]
    return Speed(
        stamps[0] - begin, statistics.median(seconds) if steady else statistics.mean(seconds)
    )


def simulate(
    method: str,
    data: fk.FederatedData,
    model: Any,
    rounds: int,
    cohort: int,
    on_round: Callable[[Any], None],
) -> None:
    """A run of a method."""
    fk.simulate(
        make(method),
        data,
        model,
        rounds=rounds,
        cohort=cohort,
        local=fk.SGD(epochs=1, batch_size=10, lr=0.03),
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=on_round,
    )


def make(method: str) -> Any:
    """A method with its defaults, and four clusters if it needs a number."""
    values: dict[str, Any] = {"name": method}
    options = registry.resolve("method", registry.methods(), values, str).values
    if "clusters" in options and method not in ("fedrep", "ditto", "apfl", "pfedme"):
        options["clusters"] = 4
    options |= OPTIONS.get(method, {})
    return registry.make(registry.methods(), options)


if __name__ == "__main__":
    main()
