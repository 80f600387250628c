"""``python -m papers.benchmark``: write docs/benchmark-field.md, its tables and the findings that
``fedkin advise`` quotes, from the stored runs, without running anything.

``python -m papers.benchmark --hours 1`` first makes missing runs one after another, the most
informative ones first. Interrupt it at any time: the same command goes on. Delete a line of
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
    """Make missing runs for the given time, and write the pages."""
    options = command_line.parser("python -m papers.benchmark", __doc__).parse_args(arguments)
    with command_line.ends_in_one_line():
        if options.hours is not None:
            run_missing(options.hours)
        findings.write(page.write(STORE, command_line.DOCS))


def run_missing(hours: float) -> None:
    """Make missing runs, and print how many were made and how many are left."""
    with claimed(STORE.parent), command_line.sigterm_as_ctrl_c():
        runs = missing(STORE)
        done = command_line.print_runs(carry_out(runs, STORE, hours), _in_a_line, STORE)
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


def _in_a_line(line: Line) -> str:
    """A line for a run: its place, and its accuracy or the reason why it was refused."""
    places = [
        line["row"],
        line["column"],
        line["trial"],
        line["seed"],
        line.get("refused", line.get("accuracy")),
    ]
    return " | ".join(map(str, places))


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with messages
    main(sys.argv[1:])
