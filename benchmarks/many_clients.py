"""A million clients against a thousand: memory, seconds a round, start, checkpoints and report.

    python -m benchmarks.many_clients [--clients 1000000] [--methods flexcfl,ifca,fedavg] [--folder
    DIR] [--write]
    python -m benchmarks.many_clients --in-memory [--against TREE] [--write]

Data: Synthetic(1, 1) with 20 samples of 60 numbers for each client, written once by ``fedkin data
make`` and read from the file; a cohort of 100. For each method a run with a thousand clients and
one with a million follow each other, each in a separate process. Memory is the largest anonymous
memory (what the system cannot take back) and the largest resident set (with pages of the files).
Seconds a round are the median from round 10 on of a second run, whose programs are compiled and
whose samples are in the system's cache. A third run is stopped after half of its rounds and
resumed: its models and assignments must equal those of the second. The last figures are the largest
resident set of a process that makes Synthetic(1, 1) of 10,000 clients in memory, and the bytes of
its samples.

``--in-memory`` measures another run: the command ``fedkin run`` with FlexCFL on the same 10,000
clients, made in memory, for 20 rounds with a cohort of 100. Each client has 50 samples or more (453
in the mean). The figure is the largest resident set. With ``--against`` the run of another checkout
of fedkin follows, and the ratio is printed.
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

import numpy as np

from benchmarks.tables import put

FEW = 1000
ROUNDS = 30
COHORT = 100
GENERATED = 10_000  # clients of the data that are made in memory
PAGE = Path("docs/many-clients.md")
PLACE = "python -m benchmarks.many_clients --write"
HEAD = (
    "method",
    "a round (s; of 1,000)",
    "ratio",
    "start (s)",
    "anonymous memory (GB)",
    "resident set (GB)",
)
HEAD += ("checkpoint (MB; s)", "report (MB)", "resumed")
AIMS = ("aim", "", "1.5", "5", "0.7", "", "10; 1", "4", "equal")
IN_MEMORY = "python -m benchmarks.many_clients --in-memory --write"
HEAD_IN_MEMORY = ("run", "samples (GB)", "resident set (GB)", "aim (GB)")
SETTINGS = (
    "data.name=synthetic",
    f"data.clients={GENERATED}",
    "model.name=mclr",
    "method.name=flexcfl",
    f"run.cohort={COHORT}",
    "run.rounds=20",
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_clients", description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--methods", default="flexcfl,ifca,fedavg")
    parser.add_argument(
        "--folder",
        type=Path,
        help="of the data, made where they are not there; default: a passing one",
    )
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    parser.add_argument("--in-memory", action="store_true", help="only this run")
    parser.add_argument("--against", type=Path, help="another checkout of fedkin")
    parser.add_argument("--one", nargs=3, metavar=("DATA", "METHOD", "OUT"), help=argparse.SUPPRESS)
    parser.add_argument("--generate", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        return generate()
    if options.in_memory:
        return in_memory(options.against, options.write)
    if options.one:
        print(json.dumps(run(Path(options.one[0]), options.one[1], Path(options.one[2]))))
        return
    with tempfile.TemporaryDirectory() as passing:
        folder = options.folder or Path(passing)
        for clients in (FEW, options.clients):
            make(clients, folder / str(clients))
        rows = [
            compare(method, folder, options.clients, Path(passing))
            for method in options.methods.split(",")
        ]
    subprocess.run([sys.executable, "-m", "benchmarks.many_clients", "--generate"], check=True)
    if options.write:
        put(PAGE, PLACE, HEAD, [*rows, AIMS])


def generate() -> None:
    """Make a federation in this process, and print its peak memory and the samples' bytes."""
    import fedkin as fk

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    samples = fk.data.synthetic(clients=GENERATED).x.nbytes / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    allowed = 1.5 * samples + 0.4
    print(
        f"synthetic, {GENERATED:,} clients: {samples:.2f} GB of samples, at most {peak:.2f} GB "
        f"(aim: {allowed:.2f}), of which {before:.2f} before"
    )


def in_memory(against: Path | None, write: bool) -> None:
    """Measure the resident set of a run on data in memory, and of the same run by another checkout.

    Args:
        against: the other checkout; None: only this one.
        write: whether to put the figure into the page.
    """
    import fedkin as fk

    samples = fk.data.synthetic(clients=GENERATED).x.nbytes / 1e9
    peak = resident_set(Path.cwd())
    print(f"FlexCFL, {GENERATED:,} clients in memory: resident set {peak:.2f} GB", flush=True)
    if against is not None:
        other = resident_set(against.resolve())
        print(f"{against}: {other:.2f} GB, ratio {peak / other:.2f}", flush=True)
    if write:
        row = (f"FlexCFL, {GENERATED:,} clients", f"{samples:.2f}", f"**{peak:.2f}**", "1.9")
        put(PAGE, IN_MEMORY, HEAD_IN_MEMORY, [row])


def resident_set(tree: Path) -> float:
    """The largest resident set of a run by the checkout in a folder, in GB."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "fedkin", "run", *SETTINGS, "--out", f"{out}/run"]
        process = subprocess.Popen(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed")
    return used.ru_maxrss / 1e6


def make(clients: int, folder: Path) -> None:
    """Write the data of the clients, unless the files exist."""
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
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(
        f"fedkin data make: {clients:,} clients, {size:,.0f} MB in {seconds:.1f} s, "
        f"{size / seconds:.0f} MB/s",
        flush=True,
    )


def compare(method: str, folder: Path, clients: int, passing: Path) -> list[str]:
    """A method's figures with a thousand clients and with many, which are printed, too."""
    results = {}
    for number in (FEW, clients):
        # The second run has compiled programs and warm pages.
        for _ in range(2):
            out = passing / f"{method}-{number}"
            shutil.rmtree(out, ignore_errors=True)
            command = [
                sys.executable,
                "-m",
                "benchmarks.many_clients",
                "--one",
                folder / str(number),
                method,
                out,
            ]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[number] = json.loads(printed.splitlines()[-1])
    few = results[FEW]
    many = results[clients]
    ratio = many["round"] / few["round"]
    print(f"{method}, {clients:,} clients (and {FEW:,}):")
    print(f"  a round: {many['round']:.3f} s ({few['round']:.3f}), ratio {ratio:.2f}")
    print(
        f"  start, to round 0: {many['start']:.1f} s ({few['start']:.1f}), of which data "
        f"{many['open']:.2f}"
    )
    print(
        f"  anonymous memory at most {many['anonymous']:.2f} GB, resident set "
        f"{many['resident']:.2f} GB"
    )
    print(
        f"  checkpoint {many['checkpoint_mb']:.1f} MB; the round that writes one takes "
        f"{many['checkpoint']:.2f} s more"
    )
    print(
        f"  after the last round: {many['end']:.1f} s; files of the run {many['files_mb']:.1f} MB"
    )
    start = time.perf_counter()
    subprocess.run(
        [*fedkin(), "report", passing / f"{method}-{clients}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    size = (passing / f"{method}-{clients}" / "report.html").stat().st_size / 1e6
    print(f"  report: {size:.1f} MB in {time.perf_counter() - start:.1f} s")
    print(f"  resumed after {ROUNDS // 2} rounds: {many['resumed']}", flush=True)
    return [
        method,
        f"{many['round']:.3f}; {few['round']:.3f}",
        f"**{ratio:.2f}**",
        f"**{many['start']:.1f}**",
        f"**{many['anonymous']:.2f}**",
        f"{many['resident']:.2f}",
        f"**{many['checkpoint_mb']:.1f}**; **{many['checkpoint']:.2f}**",
        f"**{size:.1f}**",
        many["resumed"],
    ]


def run(data: Path, method: str, out: Path) -> dict[str, Any]:
    """Run a method in this process, and measure it."""
    start = time.perf_counter()
    peak = [0.0]
    threading.Thread(target=watch, args=[peak], daemon=True).start()
    import fedkin as fk

    federation = fk.data.load(data)
    opened = time.perf_counter()
    stamps = []
    methods = {
        "flexcfl": fk.FlexCFL(clusters=4),
        "ifca": fk.IFCA(clusters=4),
        "fedavg": fk.FedAvg(),
    }

    def simulate(rounds: int, out: Path, **options: Any) -> fk.Run:
        model = fk.models.mclr(federation)
        return fk.simulate(
            methods[method],
            federation,
            model,
            rounds=rounds,
            cohort=COHORT,
            out=out,
            scoring=fk.Scoring(evaluate_every=0),
            **options,
        )

    whole = simulate(ROUNDS, out, callbacks=lambda _: stamps.append(time.perf_counter()))
    end = time.perf_counter()
    anonymous = peak[0]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    halves = out.with_name(f"{out.name}-resumed")
    shutil.rmtree(halves, ignore_errors=True)
    simulate(ROUNDS // 2, halves)
    again = simulate(ROUNDS, halves, resume=True)
    equal = np.array_equal(again.state.models, whole.state.models)
    equal &= np.array_equal(again.state.assignment, whole.state.assignment)
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    usual = statistics.median(seconds[10:-1])
    sizes = [path.stat().st_size / 1e6 for path in out.rglob("*") if path.is_file()]
    return {
        "open": opened - start,
        "start": stamps[0] - start,
        "round": usual,
        "checkpoint": seconds[19] - usual,  # of round 20
        "checkpoint_mb": max(path.stat().st_size for path in (out / "checkpoints").iterdir()) / 1e6,
        "end": end - stamps[-2],
        "files_mb": sum(sizes),
        "anonymous": anonymous,
        "resident": resident,
        "resumed": "equal" if equal else "NOT EQUAL",
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
