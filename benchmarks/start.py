"""How long fedkin takes to start: its import, and a run of 20 rounds on digits until the table of
results is shown.

    python -m benchmarks.start [--turns 5] [--write]

Each work is a new process. The works take turns with an import of JAX, so that the ratios of
processor time apply to other machines too. The first run has no compiled programs (an empty
FEDKIN_CACHE). Byte code exists, as pip writes it when it installs a package: a run before the
measurements writes it, also for a checkout, and where PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.tables import put

PAGE = Path("docs/benchmarks.md")
PLACE = "python -m benchmarks.start --write"
HEAD = ("work", "processor seconds", "in imports of JAX")
TICKS = os.sysconf("SC_CLK_TCK")  # units of processor time in a second
REFERENCE = "import jax"
AIMS = {  # seconds by the clock, on a machine without other work
    "import fedkin": 0.25,
    "a run of 20 rounds, until its table": 1.5,
    "the same without compiled programs": 6,
}


class Cost(NamedTuple):
    """Seconds of a process until a line of its output, by the clock and of the processor."""

    clock: float
    processor: float


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    rows = table(options.turns)
    if options.write:
        put(PAGE, PLACE, HEAD, rows)


def table(turns: int) -> list[list[str]]:
    """The rows of the table: medians over the turns. Seconds by the clock are printed only, since
    they depend on the other work of the machine."""
    with tempfile.TemporaryDirectory() as name:
        works = works_in(Path(name))
        works["a run of 20 rounds, until its table"]()  # compiles its programs
        costs: dict[str, list[Cost]] = {work: [] for work in works}
        for _ in range(turns):
            for work, measured in works.items():
                costs[work].append(measured())
    medians = {work: Cost(*np.median(every, axis=0)) for work, every in costs.items()}
    unit = medians[REFERENCE].processor
    for work, cost in medians.items():
        print(
            f"{work}: {cost.clock:.2f} s (aim: {AIMS.get(work, 'none')}), processor "
            f"{cost.processor:.2f} s, {cost.processor / unit:.1f} imports of JAX",
            flush=True,
        )
    return [
        [work, f"{cost.processor:.2f}", f"**{cost.processor / unit:.1f}**"]
        for work, cost in medians.items()
    ]


def works_in(folder: Path) -> dict[str, Callable[[], Cost]]:
    """The works by name; each call starts one and measures it. ``folder`` is for their files."""
    byte_code = {"PYTHONPYCACHEPREFIX": str(folder / "byte-code"), "PYTHONDONTWRITEBYTECODE": ""}

    def imported(package: str) -> Cost:
        code = f"import {package}; print('ready', flush=True)"
        return cost([sys.executable, "-c", code], "ready", byte_code)

    def run(cache: Path) -> Cost:
        """A run, until the heading of its table of results. ``cache`` has the compiled programs."""
        out = tempfile.mkdtemp(dir=folder)
        command = [sys.executable, "-m", "fedkin", "run", "--rounds", "20", "--out", f"{out}/run"]
        return cost(command, "final", byte_code | {"FEDKIN_CACHE": str(cache)})

    return {
        REFERENCE: lambda: imported("jax"),
        "import fedkin": lambda: imported("fedkin"),
        "a run of 20 rounds, until its table": lambda: run(folder / "programs"),
        "the same without compiled programs": lambda: run(Path(tempfile.mkdtemp(dir=folder))),
    }


def cost(command: list[str], word: str, environment: dict[str, str]) -> Cost:
    """Seconds of a process until it prints a line with a word.

    Args:
        command: of the process.
        word: in the line.
        environment: variables of the process, in addition to the present ones.
    """
    start = perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if word in line:
                measured = Cost(perf_counter() - start, processor_seconds(process.pid))
                process.stdout.read()  # the figure is drawn after the table
                return measured
    raise RuntimeError(f"{' '.join(command)} printed no line with {word!r}")


def processor_seconds(process: int) -> float:
    """Processor time of a running process and its threads (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS  # user and system time


if __name__ == "__main__":
    main()
