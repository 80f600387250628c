"""Thousands of rounds of FlexCFL with clients that shift and drop out: resident memory and memory
maps by thirds.

    python -m benchmarks.soak [--rounds 3000] [--out DIR]

Ends with status 1 if the mean resident memory of the last third is more than 2% above the mean of
the second. With ``--out`` the run is written to a folder, as the command line does.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedkin as fk
from fedkin.simulation.jax.program_limit import memory_maps

GROWTH = 1.02


def resident() -> float:
    """MB of memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = fk.planted("digits", "rotation", clusters=4, clients=20, seed=0)
    sizes: list[float] = []

    def note(record: dict[str, Any]) -> None:
        sizes.append(resident())
        if len(sizes) % max(options.rounds // 12, 1) == 0:
            print(
                f"round {record['round']}: {sizes[-1]:.0f} MB, {memory_maps():,} memory maps",
                flush=True,
            )

    fk.simulate(
        fk.FlexCFL(clusters=4, migration="label_aware"),
        data,
        fk.models.mclr(data),
        rounds=options.rounds,
        cohort=12,
        local=fk.SGD(epochs=1, batch_size=10, lr=0.1),
        shift=fk.SwapAll(probability=0.05),
        scenario=fk.Population(dropout=0.1),
        out=options.out,
        callbacks=[note, fk.Progress(False)],
    )
    _, second, last = (float(np.mean(third)) for third in np.array_split(sizes, 3))
    print(
        f"{options.rounds} rounds: second third {second:.0f} MB, last third {last:.0f} MB, "
        f"{last / second:.3f}x"
    )
    sys.exit(last > GROWTH * second)


if __name__ == "__main__":
    main()
