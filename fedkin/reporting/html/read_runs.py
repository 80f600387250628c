"""What a report is about: runs, seeds or a comparison, finished or not, as far as they can be read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.analysis.compare import comparison_folder as grids
from fedkin.analysis.repeated_runs import SEEDS, RepeatedRuns
from fedkin.config.registry import method_title
from fedkin.core.errors import CheckpointError, ConfigError, FedkinError
from fedkin.reporting.html.recovery import read_config, read_run, sound, walk
from fedkin.run import run_folder
from fedkin.run.fingerprint import essence
from fedkin.run.results import Run

Key = tuple[str, str, int]  # setting, method, seed of a comparison


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of a report: a method from one seed, in one setting of a comparison (else "")."""

    setting: str
    method: str
    run: Run
    whole: bool = True  # of a comparison: whether it is finished, and counts in the means

    @property
    def seed(self) -> int:
        return int(self.run.config["run"].get("seed", 0))

    @property
    def label(self) -> str:
        """What a reader chooses it by."""
        state = "" if self.whole else "not whole"
        return ", ".join(part for part in (self.setting, self.method, f"seed {self.seed}", state) if part)


@dataclass(frozen=True, eq=False)
class Subject:
    """All that a report shows. ``notes`` say what is missing and why; ``comparison`` is there if it is one."""

    kind: str  # run, seeds or comparison
    cells: tuple[Cell, ...]
    notes: list[str] = field(default_factory=list)
    folder: Path | None = None
    comparison: Any = None

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(cell.setting for cell in self.cells))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(cell.method for cell in self.cells))

    def of(self, setting: str, method: str) -> list[Run]:
        """The runs of one method in one setting, a seed each; those that are not whole only where no other is there."""
        cells = [cell for cell in self.cells if (cell.setting, cell.method) == (setting, method)]
        return [cell.run for cell in cells if cell.whole] or [cell.run for cell in cells]


def subject_of(what: Any) -> Subject:
    """A report's subject from a run, several seeds or a comparison, or from the folder of one.

    Raises CheckpointError for a folder in which nothing can be shown, ConfigError for something else.
    """
    if isinstance(what, Run):
        return Subject("run", _with_others(what), folder=what.folder)
    if isinstance(what, RepeatedRuns):
        return Subject("seeds", tuple(cell for run in what.runs for cell in _with_others(run)))
    if isinstance(what, (str, Path)):
        return _read(Path(what))
    if hasattr(what, "runs") and hasattr(what, "settings"):
        return _of_comparison(what, what.folder)
    raise ConfigError(f"expected a run, several seeds, a comparison or the folder of one, got {type(what).__name__}")


def assignments(run: Run) -> list[Int[np.ndarray, "N"]]:
    """The assignment after each round; empty where it is not known, or where the moves do not fit the run."""
    return walk(run.migrations, len(run.assignment), run.records, run.state.clusters) if run.migrations else []


def _read(path: Path) -> Subject:
    if (path / grids.COMPARISON).exists():
        return _read_comparison(path)
    if not path.is_dir() or not run_folder.holds_run(path):
        raise CheckpointError(f"{path} holds no run, no seeds and no comparison; expected the folder of one")
    config = read_config(path, [])
    if "seeds" in config["run"] or (path / SEEDS).is_dir():
        return _read_seeds(path, config)
    run, notes = read_run(path)
    if run is None:
        raise CheckpointError(" ".join(notes))
    return Subject("run", _with_others(run), notes, path)


def _read_seeds(path: Path, config: dict[str, Any]) -> Subject:
    cells: list[Cell] = []
    notes: list[str] = []
    first, seeds = config["run"].get("seed", 0), config["run"].get("seeds")
    if isinstance(seeds, int) and isinstance(first, int):
        names = [str(seed) for seed in range(first, first + seeds)]
    else:
        names = sorted((p.name for p in (path / SEEDS).glob("*") if p.name.isdigit()), key=int)
    for name in names:
        inner = path / SEEDS / name
        if not run_folder.holds_run(inner):
            notes.append(f"Seed {name} has not begun.")
            continue
        run, remarks = read_run(inner)
        notes += remarks
        cells += _with_others(run) if run else ()
    if not cells:
        raise CheckpointError(f"{path} has no seed of which anything can be shown; {' '.join(notes)}")
    return Subject("seeds", tuple(cells), notes, path)


def _read_comparison(path: Path) -> Subject:
    """Its finished runs, and of the others what there is."""
    from fedkin.analysis.compare.comparison import Comparison

    grid = grids.reopen(path)
    found: dict[Key, Run] = {}
    partly: dict[Key, Run] = {}
    notes: list[str] = []
    for cell in grids.cells_of(grid, path):
        run, whole, remarks = _of_grid(cell)
        notes += remarks
        if run is not None:
            (found if whole else partly)[cell.key] = run
    return _of_comparison(Comparison(grid, found, {}, path), path, partly, notes)


def _of_grid(cell: grids.Cell) -> tuple[Run | None, bool, list[str]]:
    """A cell's run, whether it is finished and sound, and what is to be said of it."""
    problem = ""
    try:
        run = grids.finished(cell)
        if run is not None and sound(run):
            return run, True, []
    except FedkinError as error:
        problem = f"{error}."
    except (KeyError, TypeError, ValueError, AttributeError):  # of a line or a table that is something else
        problem = f"{cell.path} is damaged."
    if not run_folder.holds_run(cell.path):
        return None, False, []
    asked = _asked(cell)
    try:
        if asked and essence(asked) != essence(run_folder.read_config(cell.path)):
            return None, False, [f"{cell.path} holds another run than this comparison's, and is left out."]
    except (CheckpointError, AttributeError, TypeError):  # then the grid says what it is
        run, remarks = read_run(cell.path)
        return (dataclasses.replace(run, config=asked) if run and asked else run), False, remarks
    run, remarks = read_run(cell.path)
    return run, False, remarks or [problem or f"{cell.path} is shorter than was asked for, or damaged."]


def _asked(cell: grids.Cell) -> dict[str, Any]:
    """The configuration of a cell's run as its file has it; empty where it can no longer be made."""
    try:
        told = cell.setting.config(cell.method).description()
    except FedkinError:
        return {}
    return json.loads(json.dumps({**told, "run": {**told["run"], "seed": cell.seed}}))


def _of_comparison(
    comparison: Any, path: Path | None, partly: Mapping[Key, Run] | None = None, remarks: Sequence[str] = ()
) -> Subject:
    known = {**(partly or {}), **comparison.found}
    cells = [
        Cell(setting, method, known[setting, method, seed], (setting, method, seed) in comparison.found)
        for setting in comparison.settings
        for method in comparison.methods
        for seed in comparison.seeds
        if (setting, method, seed) in known
    ]
    told = [", ".join(str(part) for part in (*key[:2], f"seed {key[2]}") if part) for key in comparison.missing]
    more = f" and {len(told) - 5} more" if len(told) > 5 else ""
    what = "runs are not finished or not whole, and in no mean" if len(told) > 1 else "run is not finished or not whole"
    notes = [f"{len(told)} {what}: {'; '.join(told[:5])}{more}."] if told else []
    if not cells:
        nothing = f"{path or 'the comparison'} has no run that can be shown yet; go on with it, then report"
        raise CheckpointError(" ".join([nothing, *remarks]))
    shown = comparison if comparison.found else None  # tables of nothing say nothing
    return Subject("comparison", tuple(cells), [*notes, *remarks], path, shown)


def _with_others(run: Run) -> tuple[Cell, ...]:
    named = {run.config["method"]["name"]: run, **run.against}
    return tuple(Cell("", method_title(name), one) for name, one in named.items())
