"""``python -m papers.trust``: write docs/benchmark-attacks.md and its grid from the stored runs,
without running anything.

``python -m papers.trust --hours 1`` first runs missing cells on all cores, the most informative
ones first. Interrupt it at any time: the same command goes on. Delete a line of
papers/results/trust.jsonl to run it again.
"""

from __future__ import annotations

import logging
import sys

from papers import command_line, run_queue
from papers.result_store import Line, pending, read, seconds_of_rows
from papers.trust import page
from papers.trust.runs import STORE, jobs


def main(arguments: list[str]) -> None:
    """Run missing cells for the given time, and write the pages."""
    parser = command_line.parser("python -m papers.trust", __doc__)
    command_line.add_workers(parser)
    options = parser.parse_args(arguments)
    with command_line.ends_in_one_line():
        if options.hours is not None:
            run_missing(options.hours, options.workers)
        page.write(STORE, command_line.DOCS)


def run_missing(hours: float, workers: int) -> None:
    """Run missing cells, and print how many runs were made and how many are left."""
    with run_queue.claimed(STORE.parent), command_line.sigterm_as_ctrl_c():
        runs = missing_runs()
        done = command_line.print_runs(
            run_queue.carry_out(runs, STORE.parent, hours, workers), _in_a_line, STORE
        )
    print(f"{done} runs made, {len(runs) - done} left", file=sys.stderr)


def _in_a_line(line: Line) -> str:
    """A line for a run: its place, and its accuracy or the reason why it was refused."""
    places = ("federation", "method", "rule", "attack", "seed")
    return (
        " ".join(str(line[name]) for name in places)
        + f" {line.get('accuracy', line.get('refused'))}"
    )


def missing_runs() -> list[run_queue.QueuedRun]:
    """Runs that the store lacks, in the order of the cells, each with all its seeds."""
    every = jobs()
    stored = read(STORE, jobs()).runs
    times = seconds_of_rows(every, stored)
    left = pending([(job, job.seeds) for job in every], stored)
    return [
        run_queue.QueuedRun(
            paper=run_queue.TRUST, job=job, seed=seed, value=1.0, seconds=times[job.row].seconds
        )
        for job, seed in left
    ]


if __name__ == "__main__":
    logging.getLogger("fedkin").setLevel(logging.ERROR)  # hundreds of runs, each with messages
    main(sys.argv[1:])
