"""Running a grid: one cell after another in one process, each in a folder of its own, none of them twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedkin.analysis.compare.comparison import Comparison, Key
from fedkin.analysis.compare.comparison_folder import Cell, abandon, cells_of, create, finished_run, reopen_same
from fedkin.analysis.jobs import Earlier, Job, Outcome, check_jobs, replay, several
from fedkin.analysis.side_by_side import run_side_by_side
from fedkin.config import registry
from fedkin.config.comparison import Methods as ComparedMethods
from fedkin.config.comparison import load
from fedkin.config.comparison_grid import Grid, Setting
from fedkin.config.run import RunConfig
from fedkin.core.errors import CheckpointError, ConfigError, FedkinError, StorageError
from fedkin.core.records import Record
from fedkin.core.storage import user_path
from fedkin.run.fingerprint import fingerprint
from fedkin.run.folder_lock import folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.lifecycle import Digests, Experiment, Methods
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.run.run_folder import holds_run
from fedkin.run.simulate import from_config
from fedkin.run.simulated_worlds import SimulatedWorlds

_log = logging.getLogger("fedkin")
OnCell = Callable[[Cell, bool], Any]  # the next cell, and whether it is finished already
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
    """Compare methods on the same data, scenarios and seeds, as ``fedkin compare`` does; ``fk.draw`` writes tables and
    figure.

    Args:
        study: a TOML file as for ``fedkin run``, possibly with a section [compare] (see ``config.comparison``); the
            demonstration where nothing is said.
        overrides: ``section.key=value``.
        methods: in place of the file's: names, methods that were made (``fk.IFCA(clusters=4)``, or of your own), or
            tables with a name and options; a dictionary has them by label.
        seeds: how many, in place of the file's; 3 where nothing is said.
        grid: ``{"local.lr": [0.01, 0.03]}``: each with each.
        by: the measure by which methods are compared: ``final``, ``best``, ``bottom`` or ``validation``.
        out: the folder that keeps it; with ``resume``, one that holds the same comparison already.
        resume: whether to go on with the comparison in ``out``.
        on_round: called with the record of every round; with ``jobs``, when its run is finished.
        jobs: how many runs at a time, in processes of one core each; folders are the same but for timings.
        engine: where the processes run: on this machine, where nothing is said; ``ray``, or ``ray:`` and the address of
            a cluster, by default one on each of its cores.

    Raises:
        ConfigError: an invalid configuration, or a grid without a cell; with ``jobs``, a method that other processes
            cannot import.
        StorageError, CheckpointError: about the folder.
    """
    checked = replace(load(user_path(study) if study else None, overrides, methods, seeds, axes=grid), by=by)
    check_jobs(jobs, [setting.config(method) for setting, method in checked.cells], engine)
    folder = user_path(out)
    with folder_lock(folder), interruptible():
        created = reopen_same(folder, checked) if resume else create(folder, checked)
        comparison = run(checked, folder, on_round=on_round, created=created, jobs=jobs, engine=engine)
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
) -> Comparison:
    """Run all cells that are not finished; one that cannot be run, for whatever error, is logged, and the others go on.

    Data and compiled programs are set up once for all methods and seeds of a setting, and kept for the next setting
    where its data are the same.

    Args:
        grid: settings, methods and seeds.
        out: the comparison's folder.
        on_cell: called before each cell; with ``jobs``, when it has ended.
        on_round: called with the record of every round; with ``jobs``, when its run is finished.
        jobs: how many cells at a time, in processes of one core each.
        engine: where these run.
        created: folders that were created for a new comparison; they are removed where no cell can be run.

    Raises:
        ConfigError: no cell could be run.
        CheckpointError, StorageError: a cell's folder holds another run or is damaged; the disk is full.
    """
    check_jobs(jobs, [setting.config(method) for setting, method in grid.cells], engine)
    cells = list(cells_of(grid, out))
    before = {cell.key: run for cell in cells if (run := finished_run(cell)) is not None}
    runs: dict[Key, Run] = {}
    failed: dict[Key, str] = {}
    warnings: list[str] = []
    if several(jobs, engine):
        left = [_job(cell, before) for cell in cells if cell.key not in before]
        outcomes = _at_once(cells, before, on_cell, on_round, run_side_by_side(left, jobs, engine))
    else:
        outcomes = _in_turn(cells, before, on_cell, on_round)
    with closing(outcomes):  # an error ends the processes now, not when its traceback is forgotten
        for cell, result in outcomes:
            if isinstance(result, Run):
                runs[cell.key] = result
            elif isinstance(result, (CheckpointError, StorageError)):
                raise result
            else:
                failed[cell.key] = _reason(result)
                warnings.append(f"{', '.join(str(part) for part in cell.key if part != '')}: {failed[cell.key]}")
            while runs and warnings:  # where nothing can be run, the error at the end says it once
                _log.warning("%s", warnings.pop(0))
    if not runs:
        if created is not None:
            abandon(out, created)
        raise ConfigError(f"no cell of the comparison could be run; the first says: {next(iter(failed.values()))}")
    return Comparison(grid, runs, failed, out)


def _reason(error: Exception) -> str:
    """Why there is no run; of an error that is not the library's, what it is as well."""
    return str(error) if isinstance(error, FedkinError) else f"{type(error).__name__}: {error}"


def _in_turn(
    cells: Sequence[Cell], before: Mapping[Key, Run], on_cell: OnCell | None, on_round: OnRound | None
) -> Outcomes:
    """Every cell's run, or why there is none, one after another in this process."""
    reusable, observer = _ReusableExperiment(before), None if on_round is None else _Observer(on_round)
    for cell in cells:
        if on_cell:
            on_cell(cell, cell.key in before)
        try:
            result: Run | Exception = before.get(cell.key) or reusable.run(cell, observer)
        except Exception as error:  # a method, model or task of the user's own may raise anything
            if observer is not None and error is observer.error:
                raise  # no cell's, but the caller's
            result = error
        yield cell, result


class _Observer:
    """A function that is called with every record, and the error that it raised."""

    def __init__(self, on_round: OnRound) -> None:
        self.on_round = on_round
        self.error: Exception | None = None

    def __call__(self, record: Record) -> Any:
        """What the function returns."""
        try:
            return self.on_round(record)
        except Exception as error:
            self.error = error
            raise


def _at_once(
    cells: Sequence[Cell],
    before: Mapping[Key, Run],
    on_cell: OnCell | None,
    on_round: OnRound | None,
    side_by_side: Generator[Outcome, None, None],
) -> Outcomes:
    """The same of cells that other processes run, in the order in which they end; those finished before come first."""
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
    return Job(cell.key, cell.setting.config(cell.method).description(), cell.seed, cell.path, earlier)


@dataclass
class _ReusableExperiment:
    """The experiment of the last setting, and its data for the next."""

    before: Mapping[Key, Run]  # runs that were finished before
    setting: Setting | None = None
    experiment: Experiment[SimulatedWorlds] | None = None
    digests: Digests = ()

    def run(self, cell: Cell, on_round: OnRound | None) -> Run:
        """Run one cell, or resume it."""
        config = cell.setting.config(cell.method)
        methods: Methods = [(config.method, registry.make(registry.methods(), config.method))]
        experiment = self._experiment(cell.setting, config, on_round).with_seed(cell.seed)
        experiment.check(methods)
        return experiment.side_by_side(methods, self.digests, cell.path, holds_run(cell.path))

    def _experiment(self, setting: Setting, config: RunConfig, on_round: OnRound | None) -> Experiment[SimulatedWorlds]:
        if self.experiment is None or self.setting is not setting:
            before, self.experiment = self.experiment, None
            same = before is not None and before.description["data"] == config.data
            data = before.worlds.data if before is not None and same else None
            del before  # else two data sets are in memory at once
            self.experiment, _ = from_config(config, False, on_round, data)
            self.setting, self.digests = setting, self.experiment.worlds.digests()
            self._refuse_other_data(setting)
        return self.experiment

    def _refuse_other_data(self, setting: Setting) -> None:
        """Refuse data that have changed since some runs of this setting were finished."""
        for (label, *_), run in self.before.items():
            if label == setting.label and fingerprint(run.config, *self.digests) != run.fingerprint:
                raise CheckpointError(
                    f"{run.folder} was run on other data, or with another model or version of JAX, than its "
                    "others would be now; start the comparison anew in another folder"
                )
