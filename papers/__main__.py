"""``python -m papers``: write docs/results.md, its pages, the measured sections of docs/papers,
papers/results.csv and papers/claims.csv from the stored runs, without running anything.

``python -m papers --hours 2`` first makes missing runs on all cores, the most valuable ones for
their time first, and prints how many are left. A run that the end of the time or Ctrl-C interrupts
is continued by the next such command. With the beginnings of rows' names, such as ``MNIST`` or
``FEMNIST-MCLR``, it makes only the runs of these rows. ``fedgroup/``, ``flexcfl/``, ``flexcfl/IV/``
or ``flexcfl-table4/`` before a name limits it to that paper or table. ``--check 10`` runs ten
stored runs, drawn at random, again and compares. Delete a line of papers/results/PAPER.jsonl to run
it again. ``fedkin reproduce`` runs one table, and prints it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from fedkin.core.errors import ConfigError
from fedkin.core.storage import write_atomic
from papers import (
    claims_csv,
    collective_section,
    command_line,
    difference_figure,
    measured_sections,
    results_csv,
    run_queue,
)
from papers.catalogue import PAPERS, tables
from papers.command_line import DOCS, RESULTS, TABLES
from papers.result_store import Job, Line, Stored, read, store_of, unfinished_runs
from papers.results_page import pages
from papers.table_request import plain


def main(arguments: list[str]) -> None:
    """Make the runs that the command line names, and write the pages."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.check and options.hours is not None:
        parser.error("--check runs stored runs again, for as long as they take: leave out --hours")
    with command_line.ends_in_one_line():
        jobs = _select(options.rows, options.seed)
        if options.check:
            raise SystemExit(_check(options.check, options.draw, jobs, options.seed))
        if options.rows or options.hours is not None:
            run_missing(jobs, options.seed, options.hours, options.workers)
        write(docs=DOCS, tables=TABLES)


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("python -m papers", __doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="run these rows, by the beginnings of their names"
    )
    parser.add_argument("--seed", type=int, action="append", default=[], help="this seed only")
    command_line.add_workers(parser)
    again = "run N stored runs again, drawn at random, and compare"
    parser.add_argument("--check", type=command_line.whole_number, metavar="N", help=again)
    same = "which runs --check draws: the number that it prints draws the same runs again"
    parser.add_argument("--draw", type=int, default=random.randrange(10**6), help=same)
    return parser


class NamedJob(NamedTuple):
    """A job, its paper, and the names by which the command line can select it."""

    paper: str
    job: Job
    names: tuple[str, ...]


def named_jobs() -> Iterator[NamedJob]:
    """Each job of each table. Two tables may have a job each for the same runs."""
    for paper in PAPERS.values():
        for table in paper.tables:
            for job in () if table.same_runs else table.jobs:
                part = job.key.get("table", job.key.get("panel"))
                prefixes = (paper.name, table.name, f"{paper.name}/{part}")
                yield NamedJob(
                    paper.name, job, (job.row, *(f"{prefix}/{job.row}" for prefix in prefixes))
                )


def _select(rows: Sequence[str], seeds: Sequence[int]) -> run_queue.Selection | None:
    """The jobs of the tables of these names, and of the rows that begin so, by the name of their
    paper; None: all.

    Raises ConfigError at a row that does not exist, and at a seed that none of them has.
    """
    named = list(named_jobs())
    found = [each for row in rows for each in _jobs_of(row, named)]
    every = found if rows else named
    for seed in seeds:
        if not any(seed in each.job.seeds for each in every):
            raise ConfigError(f"--seed {seed}: no recipe of these rows has this seed")
    by_paper: dict[str, list[Job]] = {}
    for each in found:
        by_paper.setdefault(each.paper, []).append(each.job)
    return by_paper if rows else None


def _jobs_of(row: str, named: Sequence[NamedJob]) -> Sequence[NamedJob]:
    """The jobs of a table or figure of that name, as in ``fedkin reproduce``; else of the rows that
    begin so."""
    of_table = {
        name: [NamedJob(paper.name, job, ()) for job in table.jobs]
        for paper, table in tables().values()
        for name in (table.name, *table.also)
    }
    if plain(row) in of_table:
        return of_table[plain(row)]
    jobs = [
        each
        for each in named
        if plain(row) and any(plain(name).startswith(plain(row)) for name in each.names)
    ]
    if not jobs:
        names = [
            *of_table,
            *(part for each in named for name in each.names for part in (name, name.split(",")[0])),
        ]
        of_plain = {plain(name): name for name in names}
        near = get_close_matches(plain(row), of_plain, 1)
        hint = (
            f"did you mean {of_plain[near[0]]!r}?"
            if near
            else "`fedkin reproduce` lists all tables."
        )
        raise ConfigError(f"no table and no row begins with {row!r}; {hint} Nothing was run")
    return jobs


def run_missing(
    jobs: run_queue.Selection | None,
    seeds: Sequence[int] = (),
    hours: float | None = None,
    workers: int = 1,
) -> None:
    """Make missing runs, print each, and print how many are left.

    Args:
        jobs: only these, by the name of their paper; None: all.
        seeds: only these; empty: the recipe's.
        hours: time limit in total; None: until all are done.
        workers: number of parallel processes.
    """
    with run_queue.claimed(RESULTS), command_line.sigterm_as_ctrl_c():
        runs = run_queue.queue(RESULTS, jobs, seeds)
        try:
            command_line.print_runs(
                run_queue.carry_out(runs, RESULTS, hours, workers), _in_a_line, RESULTS
            )
        finally:
            left = run_queue.queue(RESULTS, jobs, seeds)
            time = sum(run.seconds for run in left) / 3600
            print(
                f"{len(runs) - len(left)} runs made; {len(left)} left, about {time:.1f} hours of a "
                "core",
                file=sys.stderr,
            )
            longer = sorted(
                {
                    run.job.row
                    for run in left
                    if hours is not None and run.seconds > 3600 * hours and not run.job.resumable
                }
            )
            if longer:
                print(f"longer than {hours:g} hours a run: {', '.join(longer)}", file=sys.stderr)


def _in_a_line(line: Line) -> str:
    """A run without its curves."""
    return json.dumps(
        {name: value for name, value in line.items() if not isinstance(value, (list, dict))}
    )


def _check(count: int, draw: int, jobs: run_queue.Selection | None, seeds: Sequence[int]) -> int:
    """Run stored runs again, drawn at random; 1 if a figure differs."""
    print(f"--draw {draw}", flush=True)
    differing = 0
    try:
        for job, line in run_queue.stored_runs(RESULTS, count, draw, jobs, seeds):
            again = json.loads(json.dumps(job.run(line["seed"])))
            names = [name for name in line if name != "seconds" and line[name] != again.get(name)]
            outcome = f"differs in {', '.join(names)}" if names else "equal"
            print(f"{job.name}, seed {line['seed']}: {outcome}", flush=True)
            differing += bool(names)
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    return int(differing > 0)


def stored() -> dict[str, Stored]:
    """The stored runs of today's recipes, and the lines that are left out."""
    return {name: read(store_of(RESULTS, name), paper.jobs()) for name, paper in PAPERS.items()}


def write(docs: Path, tables: Path) -> None:
    """Write the pages, their figures, and the tables of all numbers and claims.

    Print on standard error which stored lines they leave out.

    Args:
        docs: folder of the pages.
        tables: folder of results.csv and claims.csv.
    """
    stores = stored()
    results: dict[str, list[Line]] = {name: store.runs for name, store in stores.items()}
    left_out = {name: store.left_out() for name, store in stores.items() if store.left_out()}
    for name, words in left_out.items():
        print(f"{name}: left out: {'; '.join(words)}", file=sys.stderr)
    if unfinished := unfinished_runs(RESULTS):
        print(
            f"not finished, not counted: {'; '.join(unfinished)}; the command with --hours "
            "continues them",
            file=sys.stderr,
        )
    for name, paper in PAPERS.items():
        if paper.draw:
            paper.draw(results[name], docs)
    numbers = collective_section.counted(collective_section.numbers_of(results))
    difference_figure.draw(numbers, docs)
    for name, text in pages(results, left_out).items():
        write_atomic(docs / name, text)
    (docs / "papers").mkdir(exist_ok=True)
    for name, text in measured_sections.pages(results, DOCS).items():
        write_atomic(docs / name, text)
    write_atomic(tables / "results.csv", results_csv.text(results))
    write_atomic(tables / "claims.csv", claims_csv.text(results))


if __name__ == "__main__":
    main(sys.argv[1:])
