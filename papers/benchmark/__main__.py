"""``python -m papers.benchmark``: write docs/benchmark-field.md, and what ``fedkin advise`` says of
it, from the stored runs; run nothing.

``python -m papers.benchmark --hours 1`` first runs what the store lacks, the most informative runs
first, one after another. Interrupt it at any time: the same command goes on. Delete a line of
papers/benchmark/results.jsonl to run it again.
"""

from __future__ import annotations

import logging
import sys

from papers import command_line
from papers.benchmark import findings, page
from papers.benchmark.queue import STORE, carry_out, missing
from papers.result_store import Line
from papers.run_queue import claimed


def main(arguments: list[str]) -> None:
    """Run what is missing for so long, and write the page."""
    options = command_line.parser("python -m papers.benchmark", __doc__).parse_args(arguments)
    with command_line.ends_in_one_line():
        if options.hours is not None:
            run_missing(options.hours)
        findings.write(page.write(STORE, command_line.DOCS))


def run_missing(hours: float) -> None:
    """Run what is missing, and say what was done and what is left."""
    with claimed(STORE.parent), command_line.sigterm_as_ctrl_c():
        runs = missing(STORE)
        done = command_line.print_runs(carry_out(runs, STORE, hours), _in_a_line, STORE)
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


def _in_a_line(line: Line) -> str:
    """Which run, and its accuracy or why it was refused."""
    places = [
        line["row"],
        line["column"],
        line["trial"],
        line["seed"],
        line.get("refused", line.get("accuracy")),
    ]
    return " | ".join(map(str, places))


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with its remarks
    main(sys.argv[1:])
