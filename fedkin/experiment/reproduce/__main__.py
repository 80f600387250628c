"""``python -m fedkin.experiment.reproduce [ROW ...]``: run the cells not yet measured, then write docs/results.md.

ROW is the beginning of a row's name, such as ``MNIST`` or ``FEMNIST-MCLR``, behind ``fedgroup/``, ``flexcfl/``,
``fedsim/``, ``athena/`` or ``flexcfl/IV/`` where only that paper's or table's rows are meant; ``planted/found`` asks
one of planted.py's questions, ``peers/compared`` one of peers.py's. Without any, all are run. ``--seed 0`` runs the
first seed only, ``--page`` only writes the page. Delete a line of docs/results/PAPER.jsonl, or the file, to measure
again.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from fedkin.experiment.reproduce import (
    athena,
    athena_pictures,
    fedgroup,
    fedsim,
    fedsim_pictures,
    flexcfl,
    flexcfl_page,
    peers,
    peers_page,
    planted,
    planted_page,
)
from fedkin.experiment.reproduce.page import page
from fedkin.experiment.reproduce.recipe import Cell, collect, read

DOCS = Path("docs")
Names = tuple[str, ...]
PAPERS = {"fedgroup": fedgroup.CELLS, "flexcfl": flexcfl.CELLS, "fedsim": fedsim.CELLS, "athena": athena.CELLS}
MEASURES = {
    "fedsim": fedsim.measure,
    "athena": athena.measure,
}  # what is kept of a run, where it is not the figures of tables


def main(arguments: list[str]) -> None:
    """Measure what is asked for, and write."""
    asked_for = _parser().parse_args(arguments)
    rows, only = asked_for.rows, asked_for.seed
    unknown = [row for row in rows if not any(matches(row, name) for name in everything())]
    if unknown:
        raise SystemExit(f"no row begins with {', '.join(unknown)}; nothing was run")
    if not asked_for.page:
        for paper, cells in PAPERS.items():
            asked = partial(_asked, paper, rows)
            collect(cells, store(paper), asked, only, MEASURES.get(paper))
        questions = [(q, seeds) for q, seeds in planted.questions() if wanted(named(q), rows)]
        planted.collect(questions, store("planted"), only)
        questions = [(q, seeds) for q, seeds in peers.questions() if wanted(named(q), rows)]
        planted.collect(questions, store("peers"), only, peers.answer)
    names = [*PAPERS, "planted", "peers"]
    measured = {name: read(store(name)) for name in names}
    notes = {name: (DOCS / "results" / f"{name}.md").read_text() for name in names}
    flexcfl_page.draw(measured["flexcfl"], DOCS)
    fedsim_pictures.draw(measured["fedsim"], DOCS)
    athena_pictures.draw(measured["athena"], DOCS)
    planted_page.draw(measured["planted"], DOCS)
    peers_page.draw(measured["peers"], DOCS)
    (DOCS / "results.md").write_text(page(measured, notes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fedkin.experiment.reproduce", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the beginning of a row's name; all rows where none")
    parser.add_argument("--seed", type=int, action="append", default=[], help="this seed only")
    parser.add_argument("--page", action="store_true", help="only write the page and its pictures")
    return parser


def _asked(paper: str, rows: list[str], cell: Cell) -> bool:
    return wanted(names_of(paper, cell), rows)


def store(paper: str) -> Path:
    """The runs of a paper's cells, one JSON object a line."""
    return DOCS / "results" / f"{paper}.jsonl"


def wanted(names: Names, rows: list[str]) -> bool:
    """Whether one of the names of a cell begins with one of the rows asked for; all do where none is."""
    return not rows or any(matches(row, names) for row in rows)


def matches(row: str, names: Names) -> bool:
    return any(name.startswith(row) for name in names)


def names_of(paper: str, cell: Cell) -> Names:
    """What a cell can be asked for by."""
    return cell.setting.row, f"{paper}/{cell.setting.row}", f"{paper}/{cell.table}/{cell.setting.row}"


def named(question: planted.Question | peers.Question) -> Names:
    """What a question about planted clusters, or about peers, can be asked for by."""
    paper = "peers" if isinstance(question, peers.Question) else "planted"
    return (f"{paper}/{question.panel}/{question.kind}/{question.method}",)


def everything() -> list[Names]:
    """All names there are."""
    cells = [names_of(paper, cell) for paper, all_of_it in PAPERS.items() for cell in all_of_it]
    return [*cells, *(named(question) for question, _ in (*planted.questions(), *peers.questions()))]


if __name__ == "__main__":
    main(sys.argv[1:])
