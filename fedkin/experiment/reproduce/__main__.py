"""``python -m fedkin.experiment.reproduce [ROW ...]``: run the cells not yet measured, then write docs/results.md.

ROW is the beginning of a row's name, such as ``MNIST`` or ``FEMNIST-MCLR``; without any, all are run. Delete a line of
docs/results/fedgroup.jsonl, or the file, to measure again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedkin.experiment.reproduce.fedgroup import CELLS
from fedkin.experiment.reproduce.page import page
from fedkin.experiment.reproduce.recipe import Cell, collect, read

DOCS = Path("docs")
STORE, NOTES, PAGE = DOCS / "results" / "fedgroup.jsonl", DOCS / "results" / "notes.md", DOCS / "results.md"


def main(rows: list[str]) -> None:
    """Measure and write; ``--page`` alone only writes."""

    def wanted(cell: Cell) -> bool:
        return not rows or any(cell.setting.row.startswith(row) for row in rows)

    measured = read(STORE) if rows == ["--page"] else collect(CELLS, STORE, wanted)
    PAGE.write_text(page(measured, NOTES.read_text() if NOTES.exists() else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
