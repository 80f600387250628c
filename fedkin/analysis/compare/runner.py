"""Runs all cells of a comparison, one after another or in parallel. A cell is a method in a setting
with a seed, and so one run. Finished cells are skipped."""

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
from fedkin.analysis.compare.experiments import Experiments, Observer, drawn_data, reason_of
from fedkin.analysis.compare.repeated_cells import Outcomes, repeats_of, with_repeats
from fedkin.analysis.compare.same_scores import refuse_different
from fedkin.analysis.jobs import Earlier, Job, Outcome, check_jobs, replay, several
from fedkin.analysis.parallel_runs import run_side_by_side
from fedkin.config.comparison import Methods as ComparedMethods
from fedkin.config.comparison import load
from fedkin.config.comparison_grid import ComparisonGrid
from fedkin.core.errors import CheckpointError, ConfigError, StorageError
from fedkin.core.storage import user_path
from fedkin.run.folder.lock import folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.loop import OnRound
from fedkin.run.run import Run

_log = logging.getLogger("fedkin")
OnCell = Callable[[Cell, bool], Any]  # the next cell, and whether it was already finished
OnRefused = Callable[[Cell], Any]  # a cell that is left out


def compare(
    study: str | Path | None = None,
    *overrides: str,
    methods: ComparedMethods | None = None,
    seeds: int | None = None,
    grid: Mapping[str, Sequence[Any] | str] | None = None,
    trials: int | None = None,
    by: str = "final",
    out: str | Path,
    resume: bool = False,
    on_round: OnRound | None = None,
    jobs: int | None = None,
    engine: str | None = None,
) -> Comparison:
    """Compare methods on the same data, scenarios and seeds, as ``fedkin compare`` does.

    ``fk.draw`` writes the tables and the figure.

    Args:
        study: a TOML file as for ``fedkin run``, possibly with a section [compare] (see
            ``config.comparison``); default: the demonstration that ``fedkin run`` uses without a
            file.
        overrides: texts ``section.key=value``, which replace values of the file.
        methods: methods that replace those of the file: names, method objects (such as
            ``fk.IFCA(clusters=4)`` or a user's method), or tables with a name and options; or a
            dictionary of these by label.
        seeds: number of seeds, which replaces the file's; default 3.
        grid: values of options, such as ``{"local.lr": [0.01, 0.03]}``. All combinations are run.
            With ``trials``, also distributions, such as ``{"local.lr": "log(0.01, 0.3)"}``.
        trials: number of trials of a random search, the same for every method. Options are drawn
            from the grid's distributions and lists. None: no random search.
        by: the measure by which methods are compared: ``final``, ``best``, ``bottom`` or
            ``validation``.
        out: the comparison's folder; with ``resume``, an existing folder of the same comparison.
        resume: whether to resume the comparison in ``out``.
        on_round: called with the record of every round. With ``jobs``, it is called when a run is
            finished.
        jobs: number of parallel runs, in processes of one core each. The results are the same
            except for timings.
        engine: where the processes run; default: this machine. ``ray``, or ``ray:`` and an address:
            a Ray cluster of machines, with one process on each core unless ``jobs`` is set.

    Raises:
        ConfigError: the configuration is invalid, or the grid has no cell. With ``jobs`` or
            ``engine``: the other processes cannot import the class of a user's method.
        StorageError: the folder cannot be written, or holds other files.
        CheckpointError: the folder holds no comparison that can be resumed.

    Examples:
        >>> import fedkin as fk
        >>> from tempfile import TemporaryDirectory
        >>> few = ["data.clients=6", "run.rounds=1", "run.cohort=3"]
        >>> with TemporaryDirectory() as folder:
        ...     out = f"{folder}/compared"
        ...     fk.compare(None, *few, methods=["fedavg", fk.IFCA(clusters=2)], seeds=1, out=out)
        Comparison(1 settings x 2 methods x 1 seeds: 2 finished, 0 missing)
    """
    file = user_path(study) if study else None
    loaded = load(file, overrides, methods, seeds, axes=grid, trials=trials)
    checked = replace(loaded, by=by)
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
    grid: ComparisonGrid,
    out: Path,
    on_cell: OnCell | None = None,
    on_round: OnRound | None = None,
    created: Sequence[Path] | None = None,
    jobs: int | None = None,
    engine: str | None = None,
    on_refused: OnRefused | None = None,
) -> Comparison:
    """Run all unfinished cells of a grid (a cell: one method, setting and seed). If a cell fails,
    the error is logged, and the other cells continue.

    Methods are checked before the first run. A method that does not support a setting is skipped
    there, with one warning for all seeds.

    Data and compiled programs are made once for all methods and seeds of a setting. They are kept
    for the next setting if it has the same data. A trial of a random search that repeats an earlier
    one is copied.

    Args:
        grid: settings, methods and seeds.
        out: the comparison's folder.
        on_cell: called before each cell; with ``jobs``, when it has ended.
        on_round: called with the record of every round; with ``jobs``, when its run is finished.
        jobs: number of parallel cells, in processes of one core each.
        engine: where these processes run, as in ``compare``.
        created: folders that were created for a new comparison. They are removed if no cell can be
            run.
        on_refused: called before the first run with each cell that cannot be run.

    Raises:
        ConfigError: no cell could be run, or settings have different measures.
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
    _refuse_different_measures(experiments, out, created)
    if not left:
        _end_without_runs(failed, out, created)
    comparison_folder.keep_failed(out, failed)
    repeats = repeats_of(grid, left, before.keys())
    copied = {cell.key for cells in repeats.values() for cell in cells}
    single = [cell for cell in left if cell.key not in copied]
    if parallel:
        del experiments  # free the data, because each process loads them itself
        jobs_left = [_job(cell, before) for cell in single if cell.key not in before]
        outcomes = _at_once(
            cells=single,
            before=before,
            on_cell=on_cell,
            on_round=on_round,
            side_by_side=run_side_by_side(jobs_left, jobs, engine),
        )
    else:
        outcomes = _in_turn(
            cells=single,
            before=before,
            on_cell=on_cell,
            observer=observer,
            experiments=experiments,
        )
    runs = _collect(with_repeats(outcomes, repeats, out, on_cell), failed)
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
    """The cells (a cell: one method, setting and seed) that cannot be run, with the reasons, found
    before the first run. Logs one warning for each method and setting."""
    refused = experiments.refusals(cells)
    failed = {
        cell.key: refused[cell.pair]
        for cell in cells
        if cell.pair in refused and cell.key not in before
    }
    # If no cell can be run, the final error has the reason.
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


def _refuse_different_measures(
    experiments: Experiments, out: Path, created: Sequence[Path] | None
) -> None:
    """Raise ConfigError before the first run if settings have data with different measures, such as
    accuracies and errors. The folder of a new comparison is removed then."""
    try:
        refuse_different(experiments.scores)
    except ConfigError:
        comparison_folder.keep_failed(out, {})
        if created is not None:
            abandon(out, created)
        raise


def _end_without_runs(
    failed: Mapping[Key, str], out: Path, created: Sequence[Path] | None
) -> NoReturn:
    """Remove the folder of a new comparison in which no run succeeded, and raise ConfigError."""
    comparison_folder.keep_failed(out, {})
    if created is not None:
        abandon(out, created)
    raise ConfigError(
        f"no run of the comparison succeeded; the first error is: {next(iter(failed.values()))}"
    )


def _collect(outcomes: Outcomes, failed: dict[Key, str]) -> dict[Key, Run]:
    """Collect the finished runs as they end. A failure is added to ``failed``, and logged once for
    all seeds with the same reason.

    Raises CheckpointError or StorageError if a cell's folder is damaged or cannot be written.
    """
    runs: dict[Key, Run] = {}
    warnings: list[str] = []
    logged: set[tuple[str, str, str]] = set()
    # An error ends the processes at once, and not only when the traceback is freed.
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
            # If no cell can be run, only the final error has the reason.
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
    """Run all cells (a cell: one method, setting and seed) in this process, one after another.
    Yields each cell with its run or error."""
    for cell in cells:
        if on_cell:
            on_cell(cell, cell.key in before)
        try:
            result: Run | Exception = before.get(cell.key) or experiments.run(cell)
        # A user's method, model or task may raise any exception.
        except Exception as error:
            # An error of the caller's listener ends the comparison. It is not a failure of the
            # cell.
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
    """Run cells (a cell: one method, setting and seed) in other processes. Yields each cell with
    its run or error, in the order in which they end.

    Cells that were already finished come first.
    """
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
            # The other process wrote the run to the cell's folder and sent nothing else back.
            run = Run.load(cell.path)
            if on_round:
                replay(run, on_round)
            yield cell, run


def _job(cell: Cell, before: Mapping[Key, Run]) -> Job:
    """The job that runs a cell (one method, setting and seed) in another process. The job also gets
    the finished runs on the same data, to check that the data have not changed."""
    config = cell.setting.config(cell.method)
    data = drawn_data(cell.setting.label, config, cell.seed)
    earlier = tuple(
        Earlier(run.config, run.fingerprint, str(run.folder))
        for (label, _, seed), run in before.items()
        if drawn_data(label, config, seed) == data
    )
    return Job(
        key=cell.key,
        description=config.description(),
        seed=cell.seed,
        out=cell.path,
        earlier=earlier,
    )
