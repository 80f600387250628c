"""``python -m papers [ROW ...]``: run the cells not yet measured, then write docs/results.md.

ROW is the beginning of a row's name, such as ``MNIST`` or ``FEMNIST-MCLR``, behind ``fedgroup/``, ``flexcfl/`` or
``flexcfl/IV/`` (or ``flexcfl-table4/``) where only that paper's or table's rows are meant. Without any, all are run.
``--seed 0`` runs the first seed only, ``--page`` only writes the page. Delete a line of papers/results/PAPER.jsonl, or
the file, to measure again. ``fedkin reproduce`` runs one table, and shows it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from papers.catalogue import PAPERS
from papers.result_store import Job, carry_out, pending, read
from papers.results_page import page

DOCS = Path("docs")
RESULTS = Path("papers/results")


def main(arguments: list[str]) -> None:
    """Measure what is asked for, and write."""
    asked_for = _parser().parse_args(arguments)
    unknown = [row for row in asked_for.rows if not any(_begins(names, row) for _, _, names in everything())]
    if unknown:
        raise SystemExit(f"no row begins with {', '.join(unknown)}; nothing was run")
    if not asked_for.page:
        for paper in PAPERS:
            measure(paper, asked_for.rows, asked_for.seed)
    write(DOCS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m papers", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the beginning of a row's name; all rows where none")
    parser.add_argument("--seed", type=int, action="append", default=[], help="this seed only")
    parser.add_argument("--page", action="store_true", help="only write the page and its pictures")
    return parser


def everything() -> Iterator[tuple[str, Job, tuple[str, ...]]]:
    """Each job once, with its paper and what it can be asked for by."""
    for paper in PAPERS.values():
        for table in paper.tables:
            for job in () if table.same_runs else table.jobs:
                part = job.key.get("table", job.key.get("panel"))
                behind = (paper.name, table.name, f"{paper.name}/{part}")
                yield paper.name, job, (job.row, *(f"{name}/{job.row}" for name in behind))


def _begins(names: Sequence[str], row: str) -> bool:
    return any(name.startswith(row) for name in names)


def measure(paper: str, rows: Sequence[str] = (), only: Sequence[int] = ()) -> None:
    """Run what is asked for and not in the store of a paper; each run is printed."""
    store = RESULTS / f"{paper}.jsonl"
    asked = [
        job for of, job, names in everything() if of == paper and (not rows or any(_begins(names, r) for r in rows))
    ]
    todo = pending([(job, [seed for seed in job.seeds if not only or seed in only]) for job in asked], read(store))
    for line in carry_out(todo, store) if todo else ():
        print(json.dumps(line), flush=True)


def write(docs: Path) -> None:
    """The page and its pictures."""
    measured = {name: read(RESULTS / f"{name}.jsonl") for name in PAPERS}
    notes = {name: RESULTS / f"{name}.md" for name in PAPERS}
    for name, paper in PAPERS.items():
        if paper.draw:
            paper.draw(measured[name], docs)
    text = page(measured, {name: path.read_text() for name, path in notes.items() if path.exists()})
    (docs / "results.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
