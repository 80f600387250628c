"""A million clients beside a thousand: memory, seconds a round, start, checkpoints, figure and report.

    python -m benchmarks.many_clients [--clients 1000000] [--methods flexcfl,ifca,fedavg] [--folder DIR]

Data: Synthetic(1, 1) with 20 samples of 60 numbers for each client, written once by ``fedkin data make`` and read where
they lie; a cohort of 100. A run of each method with a thousand clients and one with a million follow each other, each
in a process of its own. Memory is the largest anonymous memory (what the system cannot take back) and the largest
resident set (with pages of the files). Seconds a round are the median from round 10 on of a second run, whose programs
are compiled and whose samples are in the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

FEW, ROUNDS, COHORT = 1000, 30, 100


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_clients", description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--methods", default="flexcfl,ifca,fedavg")
    parser.add_argument(
        "--folder", type=Path, help="of the data, made where they are not there; default: a passing one"
    )
    parser.add_argument("--one", nargs=3, metavar=("DATA", "METHOD", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(Path(options.one[0]), options.one[1], Path(options.one[2]))))
        return
    with tempfile.TemporaryDirectory() as passing:
        folder = options.folder or Path(passing)
        for clients in (FEW, options.clients):
            make(clients, folder / str(clients))
        for method in options.methods.split(","):
            compare(method, folder, options.clients, Path(passing))


def make(clients: int, folder: Path) -> None:
    """Write the data of so many clients, where they are not there yet."""
    if folder.exists():
        return
    start = time.perf_counter()
    subprocess.run(
        [
            *fedkin(),
            "data",
            "make",
            "synthetic",
            f"clients={clients}",
            "samples=20",
            "train_fraction=0.8",
            "--out",
            folder,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds, size = time.perf_counter() - start, sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(
        f"fedkin data make: {clients:,} clients, {size:,.0f} MB in {seconds:.1f} s, {size / seconds:.0f} MB/s",
        flush=True,
    )


def compare(method: str, folder: Path, clients: int, passing: Path) -> None:
    """Print a method's figures with a thousand clients and with many."""
    results = {}
    for number in (FEW, clients):
        for _ in range(2):  # the second has compiled programs and warm pages
            out = passing / f"{method}-{number}"
            shutil.rmtree(out, ignore_errors=True)
            command = [sys.executable, "-m", "benchmarks.many_clients", "--one", folder / str(number), method, out]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[number] = json.loads(printed.splitlines()[-1])
    few, many = results[FEW], results[clients]
    print(f"{method}, {clients:,} clients (and {FEW:,}):")
    print(f"  a round: {many['round']:.3f} s ({few['round']:.3f}), ratio {many['round'] / few['round']:.2f}")
    print(f"  start, to round 0: {many['start']:.1f} s ({few['start']:.1f}), of which data {many['open']:.2f}")
    print(f"  anonymous memory at most {many['anonymous']:.2f} GB, resident set {many['resident']:.2f} GB")
    print(
        f"  checkpoint {many['checkpoint_mb']:.1f} MB; the round that writes one takes {many['checkpoint']:.2f} s more"
    )
    print(f"  after the last round: {many['end']:.1f} s; files of the run {many['files_mb']:.1f} MB")
    start = time.perf_counter()
    subprocess.run([*fedkin(), "report", passing / f"{method}-{clients}"], check=True, stdout=subprocess.DEVNULL)
    size = (passing / f"{method}-{clients}" / "report.html").stat().st_size / 1e6
    print(f"  report: {size:.1f} MB in {time.perf_counter() - start:.1f} s", flush=True)


def run(data: Path, method: str, out: Path) -> dict[str, Any]:
    """Run a method in this process, and measure it."""
    start, peak = time.perf_counter(), [0.0]
    threading.Thread(target=watch, args=[peak], daemon=True).start()
    import fedkin as fk

    federation = fk.data.load(data)
    opened, rounds = time.perf_counter(), []
    methods = {"flexcfl": fk.FlexCFL(clusters=4), "ifca": fk.IFCA(clusters=4), "fedavg": fk.FedAvg()}
    fk.simulate(
        methods[method],
        federation,
        fk.models.mclr(federation),
        rounds=ROUNDS,
        cohort=COHORT,
        evaluate_every=0,
        on_round=lambda _: rounds.append(time.perf_counter()),
        out=out,
    )
    seconds = [later - earlier for earlier, later in zip(rounds, rounds[1:], strict=False)]
    usual = statistics.median(seconds[10:-1])
    sizes = [path.stat().st_size / 1e6 for path in out.rglob("*") if path.is_file()]
    return {
        "open": opened - start,
        "start": rounds[0] - start,
        "round": usual,
        "checkpoint": seconds[19] - usual,  # of round 20
        "checkpoint_mb": max(path.stat().st_size for path in (out / "checkpoints").iterdir()) / 1e6,
        "end": time.perf_counter() - rounds[-2],
        "files_mb": sum(sizes),
        "anonymous": peak[0],
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def watch(peak: list[float]) -> None:
    """Note the largest anonymous memory of this process, in GB."""
    status = Path("/proc/self/status")
    while True:
        line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
        peak[0] = max(peak[0], int(line.split()[1]) / 1e6)
        time.sleep(0.02)


def fedkin() -> list[str]:
    """The command of this environment."""
    return [os.path.join(os.path.dirname(sys.executable), "fedkin")]


if __name__ == "__main__":
    main()
