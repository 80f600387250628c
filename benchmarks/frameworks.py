"""A round of 20 clients in other frameworks and in fedkin, in turns. The table is written into
docs/benchmarks.md.

    python -m benchmarks.frameworks [--with flower=PYTHON ...] [--networks CNN ...] [--turns 3]
    python -m benchmarks.frameworks --only-page

FedAvg with 1,000 clients of 60 samples in the mean, cohorts of 20, one local epoch in batches of
10, no evaluation. A framework runs with an interpreter that has it and PyTorch installed
(``--with``), and is left out without one. A turn has the median seconds of the rounds after the
first three. PyTorch has one thread for perceptrons, and all cores for convolutions, because that is
faster. On the clock of the cores it always has one. Results are stored by network and framework, so
each can be measured separately.

``--clock core`` counts the time of the cores, of all threads of a process together. On a machine
that is used by other programs, too, it is more reliable than the clock on the wall. Flower's
clients are other processes, whose time it does not count: ``--clock core`` with Flower is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedkin as fk
from benchmarks.framework_peers import CLOCKS
from benchmarks.report import OF_FRAMEWORKS, processor
from benchmarks.tables import put
from benchmarks.turns import federated
from benchmarks.work import BATCH, LR, clients
from fedkin.data.federated import FederatedData
from fedkin.models.model import Model

CLIENTS = 1000
COHORT = 20
FIRST = 3
RESULTS = Path("benchmarks/frameworks_results.json")
PAGE = Path("docs/benchmarks.md")
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
CORES = os.cpu_count() or 1
UNITS = {"wall": "seconds", "core": "core seconds"}


@dataclass(frozen=True)
class Network:
    """A network of the table.

    Attributes:
        model: fedkin's model for data.
        threads: of PyTorch.
    """

    model: Callable[[FederatedData], Model]
    threads: int


NETWORKS = {
    "784-10": Network(fk.models.mclr, 1),
    "784-128-10": Network(fk.models.mlp, 1),
    "784-512-10": Network(lambda data: fk.models.mlp(data, hidden=512), 1),
    "CNN": Network(fk.models.cnn, CORES),
    "FEMNIST's CNN": Network(lambda data: fk.models.cnn(data, "femnist"), CORES),
}


@dataclass(frozen=True)
class Framework:
    """A row of the table.

    Attributes:
        name: in the table.
        leaves_out: what its round does not do, compared with fedkin's.
        absent: why it cannot be measured; empty if it can.
    """

    name: str
    leaves_out: str = ""
    absent: str = ""


# By the name of its round in framework_peers.py.
FRAMEWORKS = {
    "pytorch": Framework("PyTorch loop", "records, bytes, resuming"),
    "compiled": Framework("`torch.compile`", "records, bytes, resuming"),
    "flower": Framework("Flower's simulation", "resuming to the bit"),
    "fedjax": Framework("FedJAX", "records, bytes, resuming"),
    "pfl": Framework("pfl-research", "bytes, resuming to the bit"),
    "fluke": Framework("fluke", "resuming to the bit"),
    "pfllib": Framework("PFLlib", absent="does not install: PyPI has no such package"),
    "fl_bench": Framework("FL-bench", absent="does not install: PyPI has no such package"),
}
OF_PROCESSES = {"flower"}  # its clients are other processes
HERE = ("pytorch", "compiled")  # measured with this interpreter
Results = dict[str, Any]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("--with", dest="pythons", metavar="NAME=PYTHON", nargs="*", default=[])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--only", nargs="*", choices=FRAMEWORKS, help="frameworks; default: all")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only-page", action="store_true", help="write the stored results")
    options = parser.parse_args()
    pythons = dict.fromkeys(HERE, sys.executable)
    pythons |= dict(pair.split("=", 1) for pair in options.pythons)
    if not options.only_page:
        chosen = {peer: p for peer, p in pythons.items() if peer in (options.only or FRAMEWORKS)}
        for network in options.networks:
            measure(network, chosen, options.turns, options.rounds, options.clock)
    write(load())


def load() -> Results:
    """The stored results."""
    if not RESULTS.exists():
        return {"clock": "wall", "machine": "", "versions": {}, "seconds": {}}
    return json.loads(RESULTS.read_text())


def measure(
    network: str, pythons: dict[str, str], turns: int, rounds: int, clock: str = "wall"
) -> None:
    """Measure a network, and store the median seconds of the rounds of each turn.

    Args:
        network: its name.
        pythons: the interpreter of each framework.
        turns: of fedkin and all frameworks.
        rounds: of a turn.
        clock: in ``CLOCKS``.

    Raises:
        SystemExit: the stored results are by another clock, or the clock does not count all
            processes of a framework.
    """
    if clock == "core" and (uncounted := sorted(pythons.keys() & OF_PROCESSES)):
        raise SystemExit(
            f"--clock core does not count the processes of {', '.join(uncounted)}: leave it out "
            "with --only, or use --clock wall"
        )
    results = load()
    if results["seconds"] and results["clock"] != clock:
        raise SystemExit(f"{RESULTS} has results of --clock {results['clock']}: move it first")
    results["clock"] = clock
    results["machine"] = f"{processor()}, {CORES} logical cores"
    results["versions"]["fedkin"] = fk.__version__
    of_network = results["seconds"].setdefault(network, {})
    found: dict[str, list[list[float]]] = {peer: [] for peer in pythons}
    ours(network, rounds, clock)  # compiles the programs of these cohorts
    for _ in range(turns):
        own = ours(network, rounds, clock)
        for peer, python in pythons.items():
            try:
                seconds, results["versions"][peer] = theirs(
                    network, peer, python=python, rounds=rounds, clock=clock
                )
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{network}, {peer}: {error}", flush=True)
                continue
            found[peer].append([own, seconds])
            print(f"{network}, {peer}: {own:.4f} s, {seconds:.4f} s", flush=True)
    of_network |= {peer: pairs for peer, pairs in found.items() if pairs}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def ours(network: str, rounds: int, clock: str) -> float:
    """Median seconds of fedkin's rounds: whole rounds of ``fk.simulate``, with their records."""
    stamps: list[float] = []
    data = federated(clients(CLIENTS))
    fk.simulate(
        fk.FedAvg(),
        data,
        NETWORKS[network].model(data),
        rounds=rounds,
        cohort=COHORT,
        local=fk.SGD(epochs=1, batch_size=BATCH, lr=LR),
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=[fk.Progress(False), lambda _: stamps.append(CLOCKS[clock]())],
    )
    return float(np.median(np.diff(stamps)[FIRST:-1]))


def theirs(network: str, peer: str, python: str, rounds: int, clock: str) -> tuple[float, str]:
    """Median seconds of a framework's rounds, measured in a new process, and its version.

    Raises:
        RuntimeError: the framework failed.
    """
    with tempfile.TemporaryDirectory() as home:
        command = [python, "-m", "benchmarks.framework_peers", peer, network, clock]
        # Threads that wait for each other spin, which counts as time of the cores.
        threads = NETWORKS[network].threads if clock == "wall" else 1
        numbers = [str(n) for n in (CLIENTS, COHORT, rounds, threads)]
        environment = {**os.environ, **OFFLINE, "FLWR_HOME": home}
        environment["PATH"] = f"{os.path.dirname(os.path.abspath(python))}:{environment['PATH']}"
        done = subprocess.run(
            [*command, *numbers],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    if done.returncode:
        raise RuntimeError(f"{peer} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return float(np.median(found["seconds"][FIRST:])), found["version"]


def write(results: Results) -> None:
    """Write the tables of the page."""
    head = ("framework", "version", *NETWORKS, "leaves out")
    where = f"{UNITS[results['clock']]} on {results['machine']}" if results["machine"] else ""
    own = [own_seconds(results, network) for network in NETWORKS]
    rows = [["fedkin (s)", results["versions"].get("fedkin", "-"), *own, where]]
    rows += [row(results, peer, framework) for peer, framework in FRAMEWORKS.items()]
    put(PAGE, OF_FRAMEWORKS, head, rows)


def own_seconds(results: Results, network: str) -> str:
    """The median seconds of fedkin's rounds."""
    pairs = [pair for found in results["seconds"].get(network, {}).values() for pair in found]
    return f"{np.median([own for own, _ in pairs]):.3f}" if pairs else "not measured"


def row(results: Results, peer: str, framework: Framework) -> list[str]:
    """A framework's seconds divided by fedkin's: the median of the turns, and their range."""
    if framework.absent:
        return [framework.name, "-", *["-"] * len(NETWORKS), framework.absent]
    cells = []
    for network in NETWORKS:
        pairs = results["seconds"].get(network, {}).get(peer)
        if not pairs:
            cells.append("not measured")
            continue
        ratios = sorted(other / own for own, other in pairs)
        cells.append(f"**{np.median(ratios):.1f}** ({ratios[0]:.1f}-{ratios[-1]:.1f})")
    version = results["versions"].get(peer, "-")
    return [framework.name, version, *cells, framework.leaves_out]


if __name__ == "__main__":
    main()
