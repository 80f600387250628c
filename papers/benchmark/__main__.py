"""``python -m papers.benchmark``: write docs/benchmark-field.md, and what ``fedkin advise`` says of it, from the stored
runs; run nothing.

``python -m papers.benchmark --hours 1`` first runs what the store lacks, the most informative runs first, one after
another. Interrupt it at any time: the same command goes on. Delete a line of papers/benchmark/results.jsonl to run it
again.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from fedkin.core.errors import FedkinError
from papers.benchmark import findings, page
from papers.benchmark.queue import STORE, carry_out, missing
from papers.run_queue import claimed


def main(arguments: list[str]) -> None:
    """Run what is missing for so long, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m papers.benchmark", description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0, help="run what is missing for so long")
    hours = parser.parse_args(arguments).hours
    if not hours >= 0:
        raise SystemExit(f"error: --hours must be 0 or more, got {hours}")
    try:
        if hours:
            run_missing(hours)
        findings.write(page.write(STORE, Path("docs")))
    except FedkinError as error:
        raise SystemExit(f"error: {error}") from None


def run_missing(hours: float) -> None:
    """Run what is missing, and say what was done and what is left."""
    with claimed(STORE.parent):
        done, runs = 0, missing(STORE)
        try:
            for line in carry_out(runs, STORE, hours):
                done += 1
                shown = line.get("refused", line.get("accuracy"))
                print(line["row"], line["column"], line["trial"], line["seed"], shown, sep=" | ", flush=True)
        except KeyboardInterrupt:
            raise SystemExit(f"interrupted; {done} runs are kept in {STORE}, and the same command goes on") from None
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with its remarks
    main(sys.argv[1:])
