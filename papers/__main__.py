"""``python -m papers``: write docs/results.md from the stored runs; run nothing.

``python -m papers --hours 2`` first runs what the stores lack, the most valuable runs for their time first, on all
cores, and says what is left. With the beginnings of rows' names, such as ``MNIST`` or ``FEMNIST-MCLR``, behind
``fedgroup/``, ``flexcfl/`` or ``flexcfl/IV/`` (or ``flexcfl-table4/``) where only that paper's or table's rows are
meant, it runs these. ``--check 5`` runs five stored runs again and compares. Delete a line of
papers/results/PAPER.jsonl to run it again. ``fedkin reproduce`` runs one table, and prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fedkin.core.errors import FedkinError
from papers import run_queue
from papers.catalogue import PAPERS
from papers.result_store import Job, Line, Stored, read
from papers.results_page import page

DOCS = Path("docs")
RESULTS = Path("papers/results")


def main(arguments: list[str]) -> None:
    """Run what the command line names, and write the page."""
    options = _parser().parse_args(arguments)
    jobs = _select(options.rows)
    if options.check:
        raise SystemExit(_check(options.check))
    try:
        if options.rows or options.hours is not None:
            run_missing(jobs, options.seed, options.hours, options.workers)
        write(DOCS)
    except FedkinError as error:
        raise SystemExit(f"error: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="run these rows, by the beginnings of their names")
    parser.add_argument("--hours", type=_positive, help="run what is missing for so long, the most valuable first")
    parser.add_argument("--seed", type=int, action="append", default=[], help="this seed only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--check", type=int, default=0, metavar="N", help="run N stored runs again, and compare")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number of hours above 0, got {text}")
    return value


class NamedJob(NamedTuple):
    """A job, its paper, and the names by which the command line can select it."""

    paper: str
    job: Job
    names: tuple[str, ...]


def named_jobs() -> Iterator[NamedJob]:
    """Each job once."""
    for paper in PAPERS.values():
        for table in paper.tables:
            for job in () if table.same_runs else table.jobs:
                part = job.key.get("table", job.key.get("panel"))
                prefixes = (paper.name, table.name, f"{paper.name}/{part}")
                yield NamedJob(paper.name, job, (job.row, *(f"{prefix}/{job.row}" for prefix in prefixes)))


def _select(rows: Sequence[str]) -> list[Job] | None:
    """The jobs of the rows that begin so; None: all. Ends the program at a row that does not exist."""
    unknown = [row for row in rows if not any(_begins(job.names, row) for job in named_jobs())]
    if unknown:
        raise SystemExit(f"no row begins with {', '.join(unknown)}; nothing was run")
    return [each.job for each in named_jobs() if any(_begins(each.names, row) for row in rows)] if rows else None


def _begins(names: Sequence[str], row: str) -> bool:
    return any(name.startswith(row) for name in names)


def run_missing(
    jobs: Sequence[Job] | None, seeds: Sequence[int] = (), hours: float | None = None, workers: int = 1
) -> None:
    """Run what the stores lack, print each run, and say what is left.

    Args:
        jobs: which; None: all.
        seeds: only these; empty: the recipe's.
        hours: of all together; None: until all are done.
        workers: processes side by side.
    """
    with run_queue.claimed(RESULTS), _sigterm_as_ctrl_c():
        _run_missing(jobs, seeds, hours, workers)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM ends the queue as Ctrl-C does, worker processes included."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_missing(jobs: Sequence[Job] | None, seeds: Sequence[int], hours: float | None, workers: int) -> None:
    runs = run_queue.queue(RESULTS, jobs, seeds)
    done = 0
    try:
        for line in run_queue.carry_out(runs, RESULTS, hours, workers):
            done += 1
            print(json.dumps({k: v for k, v in line.items() if not isinstance(v, (list, dict))}), flush=True)
    except KeyboardInterrupt:
        raise SystemExit(f"interrupted; {done} runs are kept in {RESULTS}, and the same command goes on") from None
    finally:
        left = run_queue.queue(RESULTS, jobs, seeds)
        seconds = sum(run.seconds for run in left)
        print(f"{done} runs made; {len(left)} left, about {seconds / 3600:.1f} hours of a core", file=sys.stderr)
        longer = sorted({run.job.row for run in left if hours is not None and run.seconds > 3600 * hours})
        if longer:
            print(f"longer than {hours:g} hours a run: {', '.join(longer)}", file=sys.stderr)


def _check(count: int) -> int:
    """Run stored runs again, the shortest first of each paper in turn; 1 where a figure differs."""
    differing = 0
    for job, line in run_queue.stored_runs(RESULTS, count):
        again = job.run(line["seed"])
        names = [name for name in line if name != "seconds" and line[name] != json.loads(json.dumps(again.get(name)))]
        print(f"{job.name}, seed {line['seed']}: {'differs in ' + ', '.join(names) if names else 'equal'}", flush=True)
        differing += bool(names)
    return int(differing > 0)


def stored() -> dict[str, Stored]:
    """What the stores hold of today's recipes, and what is left out."""
    return {name: read(RESULTS / f"{name}.jsonl", paper.jobs()) for name, paper in PAPERS.items()}


def write(docs: Path) -> None:
    """Write the page and its figures; name on standard error what is left out of them."""
    stores = stored()
    results: dict[str, list[Line]] = {name: store.runs for name, store in stores.items()}
    left_out = {name: store.left_out() for name, store in stores.items() if store.left_out()}
    for name, words in left_out.items():
        print(f"{name}: left out: {'; '.join(words)}", file=sys.stderr)
    notes = {name: RESULTS / f"{name}.md" for name in PAPERS}
    for name, paper in PAPERS.items():
        if paper.draw:
            paper.draw(results[name], docs)
    text = page(results, {name: path.read_text() for name, path in notes.items() if path.exists()}, left_out)
    (docs / "results.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
