"""``python -m papers.trust``: write docs/benchmark-attacks.md from the stored runs; run nothing.

``python -m papers.trust --hours 1`` first runs what the store lacks, the most informative runs first, one after
another. Interrupt it at any time: the same command goes on. Delete a line of papers/trust/results.jsonl to run it
again.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from fedkin.core.errors import FedkinError
from papers.benchmark.queue import carry_out
from papers.result_store import pending, read
from papers.run_queue import claimed
from papers.trust import page
from papers.trust.runs import STORE, jobs


def main(arguments: list[str]) -> None:
    """Run what is missing for so long, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m papers.trust", description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0, help="run what is missing for so long")
    hours = parser.parse_args(arguments).hours
    if not hours >= 0:
        raise SystemExit(f"error: --hours must be 0 or more, got {hours}")
    try:
        if hours:
            run_missing(hours)
        page.write(STORE, Path("docs"))
    except FedkinError as error:
        raise SystemExit(f"error: {error}") from None


def run_missing(hours: float) -> None:
    """Run what is missing, and say what was done and what is left."""
    with claimed(STORE.parent):
        every = jobs()
        done, runs = 0, pending([(job, job.seeds) for job in every], read(STORE, every).runs)
        try:
            for line in carry_out(runs, STORE, hours):
                done += 1
                names = ("federation", "method", "rule", "attack", "seed")
                print(*(line[name] for name in names), line.get("accuracy", line.get("refused")), flush=True)
        except KeyboardInterrupt:
            raise SystemExit(f"interrupted; {done} runs are kept in {STORE}, and the same command goes on") from None
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with its remarks
    main(sys.argv[1:])
