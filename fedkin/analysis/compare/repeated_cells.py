"""Cells of a random search that repeat an earlier trial: their method takes none of the drawn
options, or the same values were drawn twice. Such a run is made once, and copied."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedkin.analysis.compare.comparison import Key
from fedkin.analysis.compare.comparison_folder import Cell
from fedkin.config.comparison_grid import ComparisonGrid
from fedkin.core.storage import storage_errors
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.run import Run

_log = logging.getLogger("fedkin")
# The folder of a copy until it is complete.
_PART = ".copied-run"
Outcomes = Generator[tuple[Cell, Run | Exception], None, None]
Repeats = dict[Key, list[Cell]]


def repeats_of(grid: ComparisonGrid, cells: Sequence[Cell], finished: Collection[Key]) -> Repeats:
    """The unfinished cells that repeat a cell of an earlier trial, by the earlier cell's key.

    A method in all trials of which the same run counts is logged once.

    Args:
        grid: the grid of the comparison. Without random search, the result is empty.
        cells: the cells that can be run.
        finished: keys of the finished cells.
    """
    if grid.trials is None:
        return {}
    first: dict[str, Cell] = {}
    repeats: Repeats = {}
    trials: dict[str, set[str]] = {}  # of each method, the configurations of its first seed
    for cell in cells:
        configuration = cell.setting.config(cell.method).description().sections
        text = json.dumps([cell.method.label, configuration], sort_keys=True, default=str)
        if cell.seed == grid.seeds[0]:
            trials.setdefault(cell.method.label, set()).add(text)
        earlier = first.setdefault(f"{cell.seed} {text}", cell)
        # A run that has begun is resumed instead.
        if earlier is not cell and cell.key not in finished and not holds_run(cell.path):
            repeats.setdefault(earlier.key, []).append(cell)
    problems = len(grid.settings) // grid.trials
    once = [label for label, texts in trials.items() if len(texts) == problems]
    if repeats and once:
        _log.warning(
            "%s: the random search draws no option of these runs, so each seed runs once, and the "
            "result counts in every trial",
            ", ".join(once),
        )
    return repeats


def with_repeats(
    outcomes: Outcomes,
    repeats: Repeats,
    out: Path,
    on_cell: Callable[[Cell, bool], Any] | None,
) -> Outcomes:
    """Yield each cell with its run or error, followed by the cells that repeat it.

    Args:
        outcomes: the outcomes of all other cells.
        repeats: the cells that repeat an earlier one (``repeats_of``).
        out: the comparison's folder.
        on_cell: called before each copy, as for a cell that is finished.
    """
    with closing(outcomes):
        for cell, result in outcomes:
            yield cell, result
            for repeat in repeats.get(cell.key, ()):
                if on_cell:
                    on_cell(repeat, True)
                yield repeat, _copy(cell, repeat, out) if isinstance(result, Run) else result


def _copy(cell: Cell, repeat: Cell, out: Path) -> Run:
    """Copy the run of a cell to the folder of a cell that repeats it.

    Raises StorageError if the copy cannot be written.
    """
    part = out / _PART
    with storage_errors(repeat.path):
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(cell.path, part)
        repeat.path.parent.mkdir(parents=True, exist_ok=True)
        part.replace(repeat.path)
    return Run.load(repeat.path)
