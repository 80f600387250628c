"""Running a grid: one cell after another in one process, each in a separate folder, none of them
twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from fedkin.analysis.compare import comparison_folder
from fedkin.analysis.compare.comparison import Comparison, Key
from fedkin.analysis.compare.comparison_folder import (
    Cell,
    abandon,
    cells_of,
    create,
    finished_run,
    reopen_same,
)
from fedkin.analysis.compare.experiments import Experiments, Observer, reason_of
from fedkin.analysis.jobs import Earlier, Job, Outcome, check_jobs, replay, several
from fedkin.analysis.side_by_side import run_side_by_side
from fedkin.config.comparison import Methods as ComparedMethods
from fedkin.config.comparison import load
from fedkin.config.comparison_grid import Grid
from fedkin.core.errors import CheckpointError, ConfigError, StorageError
from fedkin.core.storage import user_path
from fedkin.run.folder.lock import folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.loop import OnRound
from fedkin.run.results import Run

_log = logging.getLogger("fedkin")
OnCell = Callable[[Cell, bool], Any]  # the next cell, and whether it is finished already
OnRefused = Callable[[Cell], Any]  # a cell that is left out
Outcomes = Generator[tuple[Cell, Run | Exception], None, None]


def compare(
    study: str | Path | None = None,
    *overrides: str,
    methods: ComparedMethods | None = None,
    seeds: int | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    by: str = "final",
    out: str | Path,
    resume: bool = False,
    on_round: OnRound | None = None,
    jobs: int | None = None,
    engine: str | None = None,
) -> Comparison:
    """Compare methods on the same data, scenarios and seeds, as ``fedkin compare`` does;
    ``fk.draw`` writes tables and figure.

    Args:
        study: a TOML file as for ``fedkin run``, possibly with a section [compare] (see
            ``config.comparison``); the demonstration where nothing is said.
        overrides: ``section.key=value``.
        methods: in place of the file's: names, methods that were made (``fk.IFCA(clusters=4)``, or
            your methods), or tables with a name and options; a dictionary has them by label.
        seeds: how many, in place of the file's; 3 where nothing is said.
        grid: ``{"local.lr": [0.01, 0.03]}``: each with each.
        by: the measure by which methods are compared: ``final``, ``best``, ``bottom`` or
            ``validation``.
        out: the folder that keeps it; with ``resume``, one that holds the same comparison already.
        resume: whether to go on with the comparison in ``out``.
        on_round: called with the record of every round; with ``jobs``, when its run is finished.
        jobs: how many runs at a time, in processes of one core each; folders are the same but for
            timings.
        engine: where the processes run: on this machine, where nothing is said; ``ray``, or
            ``ray:`` and the address of a cluster, by default one on each of its cores.

    Raises:
        ConfigError: an invalid configuration, or a grid without a cell; with ``jobs``, a method
            that other processes cannot import.
        StorageError: the folder cannot be written, or holds something else.
        CheckpointError: the folder holds no comparison that can be resumed.
    """
    file = user_path(study) if study else None
    checked = replace(load(file, overrides, methods, seeds, axes=grid), by=by)
    check_jobs(jobs, [setting.config(method) for setting, method in checked.cells], engine)
    folder = user_path(out)
    with folder_lock(folder), interruptible():
        created = reopen_same(folder, checked) if resume else create(folder, checked)
        comparison = run(
            checked, folder, on_round=on_round, created=created, jobs=jobs, engine=engine
        )
        comparison.write(folder)
    return comparison


def run(
    grid: Grid,
    out: Path,
    on_cell: OnCell | None = None,
    on_round: OnRound | None = None,
    created: Sequence[Path] | None = None,
    jobs: int | None = None,
    engine: str | None = None,
    on_refused: OnRefused | None = None,
) -> Comparison:
    """Run all cells that are not finished; one that cannot be run, for whatever error, is logged,
    and the others go on.

    What methods refuse is found before the first run: a method is left out of a setting that it
    refuses, with one warning for all seeds.

    Data and compiled programs are set up once for all methods and seeds of a setting, and kept for
    the next setting where its data are the same.

    Args:
        grid: settings, methods and seeds.
        out: the comparison's folder.
        on_cell: called before each cell; with ``jobs``, when it has ended.
        on_round: called with the record of every round; with ``jobs``, when its run is finished.
        jobs: how many cells at a time, in processes of one core each.
        engine: where these run.
        created: folders that were created for a new comparison; they are removed where no cell can
            be run.
        on_refused: called before the first run with each cell that is left out.

    Raises:
        ConfigError: no cell could be run.
        CheckpointError: a cell's folder holds another run or is damaged.
        StorageError: the disk is full.
    """
    check_jobs(jobs, [setting.config(method) for setting, method in grid.cells], engine)
    cells = list(cells_of(grid, out))
    before = {cell.key: run for cell in cells if (run := finished_run(cell)) is not None}
    observer = None if on_round is None else Observer(on_round)
    parallel = several(jobs, engine)
    experiments = Experiments(before, None if parallel else observer)
    failed = _left_out(experiments, cells, before, on_refused)
    left = [cell for cell in cells if cell.key not in failed]
    if not left:
        _end_without_runs(failed, out, created)
    comparison_folder.keep_failed(out, failed)
    if parallel:
        del experiments  # its data are not needed here: each process has its own
        jobs_left = [_job(cell, before) for cell in left if cell.key not in before]
        outcomes = _at_once(
            cells=left,
            before=before,
            on_cell=on_cell,
            on_round=on_round,
            side_by_side=run_side_by_side(jobs_left, jobs, engine),
        )
    else:
        outcomes = _in_turn(
            cells=left,
            before=before,
            on_cell=on_cell,
            observer=observer,
            experiments=experiments,
        )
    runs = _collect(outcomes, failed)
    if not runs:
        _end_without_runs(failed, out, created)
    comparison_folder.keep_failed(out, failed)
    return Comparison(grid, runs, failed, out)


def _left_out(
    experiments: Experiments,
    cells: Sequence[Cell],
    before: Mapping[Key, Run],
    on_refused: OnRefused | None,
) -> dict[Key, str]:
    """Why runs cannot be made, before the first one; a warning for each method and setting."""
    refused = experiments.refusals(cells)
    failed = {
        cell.key: refused[cell.pair]
        for cell in cells
        if cell.pair in refused and cell.key not in before
    }
    # Where nothing can be run, the error at the end says why.
    if len(failed) == len(cells):
        return failed
    for pair, reason in refused.items():
        _log.warning(
            "left out of the comparison: %s", comparison_folder.missing_line(*pair, reason=reason)
        )
    for cell in cells:
        if on_refused and cell.key in failed:
            on_refused(cell)
    return failed


def _end_without_runs(
    failed: Mapping[Key, str], out: Path, created: Sequence[Path] | None
) -> NoReturn:
    """Remove the folder of a new comparison of which no cell can be run. Raises ConfigError."""
    comparison_folder.keep_failed(out, {})
    if created is not None:
        abandon(out, created)
    raise ConfigError(
        f"no cell of the comparison could be run; the first says: {next(iter(failed.values()))}"
    )


def _collect(outcomes: Outcomes, failed: dict[Key, str]) -> dict[Key, Run]:
    """The runs as they end. A failure is added to ``failed``, and logged once for all seeds that
    have it.

    Raises CheckpointError, StorageError: of a cell's folder.
    """
    runs: dict[Key, Run] = {}
    warnings: list[str] = []
    logged: set[tuple[str, str, str]] = set()
    # An error ends the processes now, and not only when its traceback is forgotten.
    with closing(outcomes):
        for cell, result in outcomes:
            if isinstance(result, Run):
                runs[cell.key] = result
            elif isinstance(result, (CheckpointError, StorageError)):
                raise result
            else:
                reason = reason_of(result)
                failed[cell.key] = reason
                if (*cell.pair, reason) not in logged:
                    logged.add((*cell.pair, reason))
                    warnings.append(
                        comparison_folder.missing_line(*cell.pair, seeds=[cell.seed], reason=reason)
                    )
            # Where nothing can be run, the error at the end says it once.
            while runs and warnings:
                _log.warning("%s", warnings.pop(0))
    return runs


def _in_turn(
    cells: Sequence[Cell],
    before: Mapping[Key, Run],
    on_cell: OnCell | None,
    observer: Observer | None,
    experiments: Experiments,
) -> Outcomes:
    """Every cell's run, or why there is none, one after another in this process."""
    for cell in cells:
        if on_cell:
            on_cell(cell, cell.key in before)
        try:
            result: Run | Exception = before.get(cell.key) or experiments.run(cell)
        # A method, model or task of the user may raise anything.
        except Exception as error:
            # An error of the caller's listener is no cell's, and ends the comparison.
            if observer is not None and error is observer.error:
                raise
            result = error
        yield cell, result


def _at_once(
    cells: Sequence[Cell],
    before: Mapping[Key, Run],
    on_cell: OnCell | None,
    on_round: OnRound | None,
    side_by_side: Generator[Outcome, None, None],
) -> Outcomes:
    """The run of every cell that other processes run, or why there is none, in the order in which
    they end; cells that were finished before come first."""
    by_key = {cell.key: cell for cell in cells}
    for key, run in before.items():
        if on_cell:
            on_cell(by_key[key], True)
        yield by_key[key], run
    with closing(side_by_side) as outcomes:
        for outcome in outcomes:
            cell = by_key[outcome.job.key]
            if on_cell:
                on_cell(cell, False)
            if outcome.error is not None:
                yield cell, outcome.error
                continue
            run = Run.load(cell.path)
            if on_round:
                replay(run, on_round)
            yield cell, run


def _job(cell: Cell, before: Mapping[Key, Run]) -> Job:
    earlier = tuple(
        Earlier(run.config, run.fingerprint, str(run.folder))
        for (label, *_), run in before.items()
        if label == cell.setting.label
    )
    return Job(
        key=cell.key,
        description=cell.setting.config(cell.method).description(),
        seed=cell.seed,
        out=cell.path,
        earlier=earlier,
    )
