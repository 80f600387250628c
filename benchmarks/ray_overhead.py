"""The time that a cluster of Ray adds to a round: two machines of one core each (Ray's processes on
this machine) against one process with two cores, which has the same arithmetic.

    python -m benchmarks.ray_overhead [--rounds 12] [--turns 3] [--cohort 10] [--write]

FedAvg on MNIST, 100 clients of 100 samples, one local epoch in batches of 10, no scoring;
784-128-10 (P = 101,770) and 784-3774-10 (P = 3.0 million). Both ways take turns, and their bits are
compared. The benchmark prints medians of rounds. Models travel once a round to each machine, and
updates come back from every client. Clients have the same size, so the programs of all rounds are
compiled in the first. With other sizes each machine compiles its own programs, as one process does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import fedkin as fk
from benchmarks.tables import put

HIDDEN = (128, 3774)
PER_CLIENT = 100
PAGE = Path("docs/many-machines.md")
FIRST = 3  # rounds before it compile programs and start actors


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray_overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    # by default the objects of such a cluster have 150 MB, and the rest is written to disk
    machine: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 2**30}
    cluster = Cluster(initialize_head=True, head_node_args=machine)
    cluster.add_node(**machine)
    samples = fk.data.mnist(clients=100)
    first = np.arange(100 * PER_CLIENT)
    data = fk.data.from_arrays(samples.x[first], samples.y[first], clients=first // PER_CLIENT)
    table = []
    for hidden in HIDDEN:
        model = fk.models.mlp(data, hidden=hidden)
        local_seconds = []
        cluster_seconds = []
        for _ in range(options.turns):
            alone, expected = rounds(data, model, options, None)
            spread, models = rounds(data, model, options, f"ray:{cluster.address}")
            np.testing.assert_array_equal(models, expected)
            local_seconds.append(alone)
            cluster_seconds.append(spread)
        overhead = [1000 * (b - a) for a, b in zip(local_seconds, cluster_seconds, strict=True)]
        span = f"{statistics.median(overhead):+.0f} ({min(overhead):+.0f} to {max(overhead):+.0f})"
        medians = [
            f"{statistics.median(seconds):.3f}" for seconds in (local_seconds, cluster_seconds)
        ]
        table.append([f"{model.spec.parameters:,}", *medians, span])
        print(
            f"P = {model.spec.parameters:,}, cohort {options.cohort}: {medians[0]} s a round in "
            f"one process, {medians[1]} s on two machines: {span} ms, the same bits",
            flush=True,
        )
    if options.write:
        head = ("parameters", "one process (s a round)", "two machines (s a round)", "more (ms)")
        put(PAGE, "python -m benchmarks.ray_overhead --write", head, table)


def rounds(
    data: fk.FederatedData, model: Any, options: argparse.Namespace, engine: str | None
) -> tuple[float, Any]:
    """The median seconds of a round, and the models at the end.

    Args:
        data: of all clients.
        model: to train.
        options: of the command.
        engine: None for this process.
    """
    stamps: list[float] = []
    run = fk.simulate(
        fk.FedAvg(),
        data,
        model,
        rounds=options.rounds,
        cohort=options.cohort,
        local=fk.SGD(epochs=1, batch_size=10, lr=0.03),
        scoring=fk.Scoring(evaluate_every=0),
        compute=fk.Compute(engine=engine),
        callbacks=[fk.Progress(False), lambda _: stamps.append(time.perf_counter())],
    )
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    return statistics.median(seconds[FIRST:-1]), run.state.models


if __name__ == "__main__":
    main()
