"""``python -m papers.trust``: write docs/benchmark-attacks.md from the stored runs; run nothing.

``python -m papers.trust --hours 1`` first runs what the store lacks, the most informative runs first, on all cores.
Interrupt it at any time: the same command goes on. Delete a line of papers/results/trust.jsonl to run it again.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from fedkin.core.errors import FedkinError
from papers import run_queue
from papers.result_store import pending, read, seconds_of_rows
from papers.trust import page
from papers.trust.runs import STORE, jobs


def main(arguments: list[str]) -> None:
    """Run what is missing for so long, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m papers.trust", description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0, help="run what is missing for so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes side by side")
    options = parser.parse_args(arguments)
    if not options.hours >= 0:
        raise SystemExit(f"error: --hours must be 0 or more, got {options.hours}")
    if not options.workers >= 1:
        raise SystemExit(f"error: --workers must be 1 or more, got {options.workers}")
    try:
        if options.hours:
            run_missing(options.hours, options.workers)
        page.write(STORE, Path("docs"))
    except FedkinError as error:
        raise SystemExit(f"error: {error}") from None


def run_missing(hours: float, workers: int) -> None:
    """Run what is missing, and say what was done and what is left."""
    with run_queue.claimed(STORE.parent):
        done, runs = 0, missing_runs()
        try:
            for line in run_queue.carry_out(runs, STORE.parent, hours, workers):
                done += 1
                names = ("federation", "method", "rule", "attack", "seed")
                print(*(line[name] for name in names), line.get("accuracy", line.get("refused")), flush=True)
        except KeyboardInterrupt:
            raise SystemExit(f"interrupted; {done} runs are kept in {STORE}, and the same command goes on") from None
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


def missing_runs() -> list[run_queue.QueuedRun]:
    """What the store lacks, in the order of the cells, each with all its seeds."""
    every, stored = jobs(), read(STORE, jobs()).runs
    times = seconds_of_rows(every, stored)
    left = pending([(job, job.seeds) for job in every], stored)
    return [run_queue.QueuedRun(run_queue.TRUST, job, seed, 1.0, times[job.row].seconds) for job, seed in left]


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with its remarks
    main(sys.argv[1:])
