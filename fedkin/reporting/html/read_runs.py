"""Reads the runs that a report shows: a run, several seeds or a comparison, finished or not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.analysis.compare import comparison_folder
from fedkin.analysis.compare.comparison import Comparison, Key
from fedkin.analysis.repeated_runs import SEEDS, RepeatedRuns
from fedkin.config.description import Description
from fedkin.config.registry import method_title
from fedkin.core.errors import CheckpointError, ConfigError, FedkinError
from fedkin.core.storage import user_path
from fedkin.measures.measure import Measure
from fedkin.reporting.html.lenient_reader import is_intact, read_config, read_run, replayed
from fedkin.run.folder import run_folder
from fedkin.run.folder.fingerprint import determining_part
from fedkin.run.run import Run


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run of a method with one seed. ``setting`` is the setting's label in a comparison,
    otherwise empty."""

    setting: str
    method: str
    run: Run
    complete: bool = True  # in a comparison: whether it is finished and included in means

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.run.config.seed)

    @property
    def label(self) -> str:
        """The label by which the page's reader selects the run."""
        state = "" if self.complete else "incomplete"
        parts = (self.setting, self.method, f"seed {self.seed}", state)
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class ReportInput:
    """All runs of a report. ``notes`` list missing parts with reasons. ``comparison`` is set if the
    report is about a comparison."""

    kind: str  # run, seeds or comparison
    runs: tuple[ReportedRun, ...]
    notes: list[str] = field(default_factory=list)
    folder: Path | None = None
    comparison: Comparison | None = None

    @property
    def settings(self) -> list[str]:
        """Labels of the settings, in order."""
        return list(dict.fromkeys(one.setting for one in self.runs))

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in order."""
        return list(dict.fromkeys(one.method for one in self.runs))

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The user's measures, which have a chart and a column in every table."""
        return self.runs[0].run.measures

    def runs_of(self, setting: str, method: str) -> list[Run]:
        """The runs of one method in one setting, one for each seed. Incomplete runs are returned
        only if there are no complete ones."""
        runs = [one for one in self.runs if (one.setting, one.method) == (setting, method)]
        return [one.run for one in runs if one.complete] or [one.run for one in runs]


def read_runs(source: Any) -> ReportInput:
    """Read the runs of a report from a run, several seeds, a comparison, or the folder of one of
    them.

    Raises CheckpointError if the folder has no rounds to show, ConfigError for other sources.
    """
    if isinstance(source, Run):
        return ReportInput("run", _with_others(source), folder=source.folder)
    if isinstance(source, RepeatedRuns):
        return ReportInput("seeds", tuple(one for run in source.runs for one in _with_others(run)))
    if isinstance(source, (str, Path)):
        return _read(user_path(source))
    if isinstance(source, Comparison):
        return _of_comparison(source, source.folder)
    raise ConfigError(
        "expected a run, several seeds, a comparison or the folder of one of these, got "
        f"{type(source).__name__}"
    )


def assignments(run: Run) -> list[Int[np.ndarray, "N"]]:
    """The cluster of each client after each round. Empty if it is unknown, or if the recorded
    migrations do not match the run."""
    if not run.migrations:
        return []
    return replayed(run.migrations, len(run.assignment), run.records, run.state.clusters)


def _read(path: Path) -> ReportInput:
    """Find out whether a folder holds a run, several seeds or a comparison, and read it."""
    if (path / comparison_folder.COMPARISON).exists():
        return _read_comparison(path)
    if not path.is_dir() or not run_folder.holds_run(path):
        raise CheckpointError(
            f"{path} holds no run, no seeds and no comparison; give the folder of a run, of "
            "several seeds or of a comparison"
        )
    config = read_config(path, [])
    if config.seeds is not None or (path / SEEDS).is_dir():
        return _read_seeds(path, config)
    run, notes = read_run(path)
    if run is None:
        raise CheckpointError(" ".join(notes))
    return ReportInput("run", _with_others(run), notes, path)


def _read_seeds(path: Path, config: Description) -> ReportInput:
    """Read the runs of several seeds. Seeds without a round to show are in the notes."""
    runs: list[ReportedRun] = []
    notes: list[str] = []
    first = config.seed
    seeds = config.seeds
    if isinstance(seeds, int) and isinstance(first, int):
        names = [str(seed) for seed in range(first, first + seeds)]
    else:
        names = sorted((p.name for p in (path / SEEDS).glob("*") if p.name.isdigit()), key=int)
    for name in names:
        inner = path / SEEDS / name
        if not run_folder.holds_run(inner):
            notes.append(f"Seed {name} has not started.")
            continue
        run, remarks = read_run(inner)
        notes += remarks
        runs += _with_others(run) if run else ()
    if not runs:
        raise CheckpointError(
            f"{path} has no seed with a round that can be shown; {' '.join(notes)}"
        )
    return ReportInput("seeds", tuple(runs), notes, path)


def _read_comparison(path: Path) -> ReportInput:
    """Read the finished runs of a comparison, and the readable parts of unfinished runs."""
    grid = comparison_folder.reopen(path)
    finished: dict[Key, Run] = {}
    incomplete: dict[Key, Run] = {}
    notes: list[str] = []
    for cell in comparison_folder.cells_of(grid, path):
        run, complete, remarks = _read_cell(cell)
        notes += remarks
        if run is not None:
            (finished if complete else incomplete)[cell.key] = run
    all_failed = comparison_folder.read_failed(path)
    failed = {key: reason for key, reason in all_failed.items() if key not in finished}
    comparison = Comparison(grid, finished, failed, path)
    return _of_comparison(comparison, path, incomplete, notes)


class _CellRun(NamedTuple):
    """What could be read of a comparison's cell (a method in a setting with a seed): its run (None
    if it cannot be shown), whether the run is finished and intact, and remarks for the report."""

    run: Run | None
    complete: bool
    remarks: list[str]


def _read_cell(cell: comparison_folder.Cell) -> _CellRun:
    """Read the run of a comparison's cell (a method in a setting with a seed), as far as
    possible."""
    problem = ""
    try:
        run = comparison_folder.finished_run(cell)
        if run is not None and is_intact(run):
            return _CellRun(run, True, [])
    except FedkinError as error:
        problem = f"{error}."
    # The readers raise one of these errors for a line or table of a wrong form.
    except (KeyError, TypeError, ValueError, AttributeError):
        problem = f"{cell.path} is damaged."
    if not run_folder.holds_run(cell.path):
        return _CellRun(None, False, [])
    expected = _expected_config(cell)
    try:
        if expected and determining_part(expected) != determining_part(
            run_folder.read_config(cell.path)
        ):
            return _CellRun(
                None,
                False,
                [
                    f"{cell.path} holds a run that does not belong to this comparison, and is "
                    "left out."
                ],
            )
    except (CheckpointError, AttributeError, TypeError):  # the grid has the configuration too
        run, remarks = read_run(cell.path)
        return _CellRun(
            dataclasses.replace(run, config=expected) if run and expected else run, False, remarks
        )
    run, remarks = read_run(cell.path)
    return _CellRun(
        run,
        False,
        remarks or [problem or f"{cell.path} has fewer rounds than configured, or is damaged."],
    )


def _expected_config(cell: comparison_folder.Cell) -> Description | None:
    """The description that the run of a comparison's cell (a method in a setting with a seed)
    should have. None if this version of fedkin does not accept the cell's configuration any
    more."""
    try:
        description = cell.setting.config(cell.method).description()
    except FedkinError:
        return None
    return Description(json.loads(json.dumps(description.with_run(seed=cell.seed).sections)))


def _of_comparison(
    comparison: Comparison,
    path: Path | None,
    incomplete: Mapping[Key, Run] | None = None,
    remarks: Sequence[str] = (),
) -> ReportInput:
    """The runs of a comparison. Unfinished ones are marked, and not included in means."""
    by_key = {**(incomplete or {}), **comparison.finished}
    keys = [
        (setting, method, seed)
        for setting in comparison.settings
        for method in comparison.methods
        for seed in comparison.seeds
    ]
    runs = [
        ReportedRun(
            setting=key[0],
            method=key[1],
            run=by_key[key],
            complete=key in comparison.finished,
        )
        for key in keys
        if key in by_key
    ]
    missing = [
        ", ".join(str(part) for part in (*key[:2], f"seed {key[2]}") if part)
        for key in comparison.missing
    ]
    notes = []
    if missing:
        verb = "runs are" if len(missing) > 1 else "run is"
        listed = "; ".join(missing[:5])
        if len(missing) > 5:
            listed += f" and {len(missing) - 5} more"
        notes.append(f"{len(missing)} {verb} incomplete, and not included in means: {listed}.")
    if not runs:
        problem = (
            f"{path or 'the comparison'} has no run that can be shown yet; resume the comparison "
            "first"
        )
        raise CheckpointError(" ".join([problem, *remarks]))
    return ReportInput(
        kind="comparison",
        runs=tuple(runs),
        notes=[*notes, *remarks],
        folder=path,
        # Without a finished run, the comparison's tables would be empty.
        comparison=comparison if comparison.finished else None,
    )


def _with_others(run: Run) -> tuple[ReportedRun, ...]:
    """A run as a ``ReportedRun``, followed by the runs of the methods with which it is compared."""
    return tuple(
        ReportedRun("", method_title(method_run.config.method_with_options), method_run)
        for method_run in (run, *run.against.values())
    )
