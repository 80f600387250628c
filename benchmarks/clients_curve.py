"""Seconds of a round against the number of clients, from a hundred to a million; the figure
docs/images/benchmark-clients.svg.

    python -m benchmarks.clients_curve [--most 1000000] [--folder DIR] [--draw]

Data and runs are those of ``benchmarks.many_clients``: 20 samples of 60 numbers for each client,
cohorts of 100, no scoring. The sizes take turns. ``--draw`` only draws the stored results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.many_clients import make
from fedkin.reporting.style import COLOURS, STYLE, new_figure, prepare, write

RESULTS = Path("benchmarks/clients_curve_results.json")
IMAGE = Path("docs/images/benchmark-clients.svg")
SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
METHODS = {"fedavg": "FedAvg", "flexcfl": "FlexCFL, four clusters"}
Seconds = dict[str, dict[str, list[float]]]  # of a round, by method and number of clients


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients_curve", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of clients")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="of the data; default: a passing one")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw:
        sizes = [size for size in SIZES if size <= options.most]
        with tempfile.TemporaryDirectory() as passing:
            folder = options.folder or Path(passing)
            seconds = measure(sizes, options.turns, folder, Path(passing))
        RESULTS.write_text(json.dumps(seconds, indent=1) + "\n")
    with matplotlib.rc_context(STYLE):
        write(figure(json.loads(RESULTS.read_text())), IMAGE)


def measure(sizes: list[int], turns: int, folder: Path, passing: Path) -> Seconds:
    """Median seconds of a round in each turn. A turn before the first compiles the programs.

    Args:
        sizes: numbers of clients.
        turns: that count.
        folder: of the data.
        passing: for the runs.
    """
    for size in sizes:
        make(size, folder / str(size))
    found: Seconds = {method: {str(size): [] for size in sizes} for method in METHODS}
    for turn in range(-1, turns):
        for method in METHODS:
            for size in sizes:
                seconds = one(folder / str(size), method, passing / f"{method}-{size}-{turn}")
                print(f"{method}, {size:,} clients: {seconds:.4f} s", flush=True)
                if turn >= 0:
                    found[method][str(size)].append(seconds)
    return found


def one(data: Path, method: str, out: Path) -> float:
    """Median seconds of a round of a run in a new process."""
    command = [sys.executable, "-m", "benchmarks.many_clients", "--one", data, method, out]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])["round"]


def figure(seconds: Seconds) -> Figure:
    """Seconds of a round by the number of clients: medians of the turns, and their range."""
    drawn = new_figure(6.0, 3.6)
    axes = drawn.subplots()
    turns = len(next(iter(next(iter(seconds.values())).values())))
    note = f"seconds; cohorts of 100 clients; medians of {turns} turns, and their range"
    prepare(axes, "A round by the number of clients", note)
    for colour, (method, by_size) in zip(COLOURS, seconds.items(), strict=False):
        sizes = [int(size) for size in by_size]
        middle = [statistics.median(turns) for turns in by_size.values()]
        low = [min(turns) for turns in by_size.values()]
        high = [max(turns) for turns in by_size.values()]
        axes.plot(sizes, middle, color=colour, marker="o", ms=4, label=METHODS[method])
        axes.fill_between(sizes, low, high, color=colour, alpha=0.2, lw=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("clients")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    return drawn


if __name__ == "__main__":
    main()
