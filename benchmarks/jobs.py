"""A comparison in two processes against one process, on one core and on all: six cells of MNIST,
784-128-10.

    python -m benchmarks.jobs [--rounds 60] [--jobs 2] [--engine ray]

With ``--engine`` instead: on a Ray cluster of this machine, twelve cells, one at a time and
several, with its start.

One process by itself divides a round's clients among all cores; ``--jobs`` gives every process one.
All use the same cache of compiled programs, which a first short comparison fills. The three take
turns, and each turn is one ratio, so that whatever else the machine does weighs on all alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.compare import STUDY, timed

METHODS = ("fedavg", "ifca", "fedgroup")
TURNS = 2
ONE_CORE = ("taskset", "--cpu-list", "0")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--engine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study = root / "study.toml"
        study.write_text(STUDY.format(model="mlp", rounds=options.rounds))
        command = ("compare", str(study), "--methods", ",".join(METHODS), "--seeds", "2")
        if options.engine:
            return on_cluster(
                root, (*command[:-1], "4", "--engine", options.engine), options.jobs, options.rounds
            )
        one_process = ("run.devices=1",)
        several = ("--jobs", str(options.jobs))
        # A device more or less is another program.
        for name, way in (
            ("one", one_process),
            ("all", ()),
            ("several", several),
        ):
            timed(*command, *way, "run.rounds=2", "--out", str(root / f"first-{name}"))
        turns = [
            (
                timed(*command, *one_process, "--out", str(root / f"one-{turn}"), prefix=ONE_CORE),
                timed(*command, "--out", str(root / f"all-{turn}")),
                timed(*command, *several, "--out", str(root / f"several-{turn}")),
            )
            for turn in range(TURNS)
        ]
    for name, times in zip(
        ("on one core", "on all cores"), list(zip(*turns, strict=True))[:2], strict=True
    ):
        ratios = [time / turn[2] for time, turn in zip(times, turns, strict=True)]
        print(
            f"{2 * len(METHODS)} cells of {options.rounds} rounds: {statistics.median(times):.0f} "
            f"s in one process {name}, {statistics.median(turn[2] for turn in turns):.0f} s in "
            f"{options.jobs}, {statistics.median(ratios):.2f}x ({min(ratios):.2f} to "
            f"{max(ratios):.2f})"
        )


def on_cluster(root: Path, command: tuple[str, ...], jobs: int, rounds: int) -> None:
    """One cell at a time against several at a time, in turns.

    Args:
        root: of all folders.
        command: the comparison.
        jobs: number of cells at a time.
        rounds: of each cell.
    """
    timed(*command, "run.rounds=2", "--out", str(root / "first"))
    ratios = []
    for turn in range(TURNS):
        one, several = (
            timed(*command, "--jobs", str(count), "--out", str(root / f"{count}-{turn}"))
            for count in (1, jobs)
        )
        ratios.append(one / several)
        print(
            f"{4 * len(METHODS)} cells of {rounds} rounds: {one:.0f} s one by one, {several:.0f} "
            f"s by {jobs}",
            flush=True,
        )
    print(f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
