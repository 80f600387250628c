"""``python -m fedkin.experiment.reproduce [ROW ...]``: run the cells not yet measured, then write docs/results.md.

ROW is the beginning of a row's name, such as ``MNIST`` or ``FEMNIST-MCLR``, behind ``fedgroup/`` or ``flexcfl/`` where
only that paper's rows are meant (``flexcfl/`` alone: all of them). Without any, all are run. ``--seed 0`` runs the
first seed only, ``--page`` only writes the page. Delete a line of docs/results/PAPER.jsonl, or the file, to measure
again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedkin.experiment.reproduce import fedgroup, flexcfl, flexcfl_page
from fedkin.experiment.reproduce.page import page
from fedkin.experiment.reproduce.recipe import Cell, collect, read

DOCS = Path("docs")
PAPERS = {"fedgroup": fedgroup.CELLS, "flexcfl": flexcfl.CELLS}


def main(arguments: list[str]) -> None:
    """Measure what is asked for, and write."""
    only = [int(arguments[i + 1]) for i, a in enumerate(arguments) if a == "--seed"]
    rows = [a for i, a in enumerate(arguments) if not a.startswith("--") and (i == 0 or arguments[i - 1] != "--seed")]
    if "--page" not in arguments:
        for paper, cells in PAPERS.items():
            collect(cells, store(paper), lambda cell, paper=paper: wanted(paper, cell, rows), only)
    measured = {paper: read(store(paper)) for paper in PAPERS}
    notes = {paper: (DOCS / "results" / f"{paper}.md").read_text() for paper in PAPERS}
    flexcfl_page.draw(measured["flexcfl"], DOCS)
    (DOCS / "results.md").write_text(page(measured, notes))


def store(paper: str) -> Path:
    """The runs of a paper's cells, one JSON object a line."""
    return DOCS / "results" / f"{paper}.jsonl"


def wanted(paper: str, cell: Cell, rows: list[str]) -> bool:
    """Whether a cell's row begins with one of those asked for; all do where none is named."""
    names = (cell.setting.row, f"{paper}/{cell.setting.row}", f"{paper}/{cell.table}/{cell.setting.row}")
    return not rows or any(name.startswith(row) for row in rows for name in names)


if __name__ == "__main__":
    main(sys.argv[1:])
