"""``python -m papers [ROW ...]``: run the cells that have no run yet, then write docs/results.md.

ROW is the beginning of a row's name, such as ``MNIST`` or ``FEMNIST-MCLR``, behind ``fedgroup/``, ``flexcfl/`` or
``flexcfl/IV/`` (or ``flexcfl-table4/``) where only that paper's or table's rows are meant. Without any, all are run.
``--seed 0`` runs the first seed only, ``--page`` only writes the page. Delete a line of papers/results/PAPER.jsonl, or
the file, to run it again. ``fedkin reproduce`` runs one table, and prints it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from papers.catalogue import PAPERS
from papers.result_store import Job, carry_out, pending, read
from papers.results_page import page

DOCS = Path("docs")
RESULTS = Path("papers/results")


def main(arguments: list[str]) -> None:
    """Run what the command line names, and write the page."""
    options = _parser().parse_args(arguments)
    unknown = [row for row in options.rows if not any(_begins(job.names, row) for job in named_jobs())]
    if unknown:
        raise SystemExit(f"no row begins with {', '.join(unknown)}; nothing was run")
    if not options.page:
        for paper in PAPERS:
            run_paper(paper, options.rows, options.seed)
    write(DOCS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m papers", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the beginning of a row's name; all rows where none")
    parser.add_argument("--seed", type=int, action="append", default=[], help="this seed only")
    parser.add_argument("--page", action="store_true", help="only write the page and its figures")
    return parser


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


def _begins(names: Sequence[str], row: str) -> bool:
    return any(name.startswith(row) for name in names)


def run_paper(paper: str, rows: Sequence[str] = (), seeds: Sequence[int] = ()) -> None:
    """Run the jobs of a paper that its store lacks, and print each run.

    Args:
        paper: its name in the catalogue.
        rows: how the names of rows begin; empty: all.
        seeds: only these; empty: the recipe's.
    """
    store = RESULTS / f"{paper}.jsonl"
    jobs = [
        each.job
        for each in named_jobs()
        if each.paper == paper and (not rows or any(_begins(each.names, row) for row in rows))
    ]
    missing = pending([(job, [s for s in job.seeds if not seeds or s in seeds]) for job in jobs], read(store))
    for line in carry_out(missing, store) if missing else ():
        print(json.dumps(line), flush=True)


def write(docs: Path) -> None:
    """Write the page and its figures."""
    results = {name: read(RESULTS / f"{name}.jsonl") for name in PAPERS}
    notes = {name: RESULTS / f"{name}.md" for name in PAPERS}
    for name, paper in PAPERS.items():
        if paper.draw:
            paper.draw(results[name], docs)
    text = page(results, {name: path.read_text() for name, path in notes.items() if path.exists()})
    (docs / "results.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
