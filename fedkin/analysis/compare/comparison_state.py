"""Progress of the comparison in a folder: how many runs are finished or missing, and whether the
stored tables match the finished runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedkin.analysis.compare.comparison import DIFFERENCES, RUNS, TABLE, Comparison
from fedkin.analysis.compare.comparison_folder import cells_of, reopen
from fedkin.core.errors import FedkinError
from fedkin.run.folder.folder_state import FolderState
from fedkin.run.folder.run_folder import holds_run


@dataclass
class ComparisonState(FolderState):
    """The state of a comparison's folder.

    Attributes:
        cells: number of cells of the grid. A cell is one method in one setting with one seed.
        begun: number of cells with a run, finished or not.
        complete: number of cells with a finished run.
    """

    cells: int = 0
    begun: int = 0
    complete: int = 0

    @property
    def words(self) -> str:
        """The progress of a comparison as one line of text. Problems with its files are not
        mentioned."""
        parts = [f"{self.complete} of {self.cells} cells finished"]
        if self.begun > self.complete:
            parts.append(f"{self.begun - self.complete} started")
        if self.cells > self.begun:
            parts.append(f"{self.cells - self.begun} not started")
        return ", ".join(parts)


def comparison_state(folder: Path) -> ComparisonState:
    """Find missing cells (a cell: one method, setting and seed) and damaged files in a comparison's
    folder.

    Cells without a run are no damage. A table that does not match the finished runs is damage: it
    was edited or truncated, or the comparison was killed before the table was updated.

    Args:
        folder: the comparison's folder.
    """
    state = ComparisonState(folder, method="comparison")
    try:
        cells = list(cells_of(reopen(folder), folder))
        state.cells = len(cells)
        state.begun = sum(holds_run(cell.path) for cell in cells)
        comparison = Comparison.load(folder)
    except FedkinError as error:
        state.problems.append(str(error))
        return state
    state.complete = len(comparison.finished)
    state.finished = not comparison.missing
    # An older version of fedkin wrote no table of runs.
    tables = {
        TABLE: comparison.table(),
        DIFFERENCES: comparison.differences(),
        RUNS: comparison.runs_table(),
    }
    for name, table in tables.items():
        path = folder / name
        if not path.exists():
            if state.finished and name != RUNS:
                state.problems.append(f"{path} is missing")
        # The stored table must be the one that the finished runs give now.
        elif path.read_bytes() != table.to_csv(index=False).encode():
            again = "fedkin compare --resume writes it again"
            state.problems.append(f"{path} does not match the finished runs; {again}")
    return state
