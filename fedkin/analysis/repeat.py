"""Repeats an experiment with several seeds, by default in one process, so that programs are
compiled once."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedkin.analysis.jobs import Job, Outcome, check_jobs, replay, several
from fedkin.analysis.parallel_runs import run_side_by_side
from fedkin.analysis.repeated_runs import COMPARISONS, CURVES, SEEDS, RepeatedRuns, seeds_of
from fedkin.config.run import RunConfig
from fedkin.config.schema import check_integer
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.core.plain import plain
from fedkin.core.storage import complete_lines
from fedkin.run.callbacks import OnRound
from fedkin.run.experiment import Experiment
from fedkin.run.folder import run_folder
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.lock import folder_checks, folder_lock
from fedkin.run.folder.run_folder import Folder, holds_run
from fedkin.run.interruption import interruptible
from fedkin.run.run import Run
from fedkin.run.simulate import from_config
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.worlds import Digests, Methods
from fedkin.tracking.operated import operated, tracker_of
from fedkin.tracking.registry import make_trackers
from fedkin.tracking.tracker import Tracker

_log = logging.getLogger("fedkin")
OnSeed = Callable[[int, int], Any]  # number of the seed (from 0), and the seed


def repeat(run: Callable[[int], Run], seeds: int | Sequence[int]) -> RepeatedRuns:
    """Run an experiment with several seeds, one after another.

    Args:
        run: function from a seed to a finished run, such as ``lambda seed: fk.simulate(...,
            seed=seed)``. Make objects that all seeds share (data, model) outside of the function.
        seeds: number of seeds, starting at 0; or the seeds themselves.

    Raises:
        ConfigError: there are no seeds, a seed is repeated or invalid, or the runs belong to
            different experiments.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> def run(seed):
        ...     return fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=3, seed=seed)
        >>> runs = fk.repeat(run, seeds=2)
        >>> [run.config.seed for run in runs.runs]
        [0, 1]
    """
    seeds = plain(seeds)
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        check_integer("seeds", seeds, 1)
    requested = list(range(seeds) if isinstance(seeds, int) else seeds)
    for seed in requested:
        check_integer("a seed", seed, 0)
    if not requested or len(set(requested)) < len(requested):
        raise ConfigError(f"seeds must be different integers, at least one, got {requested}")
    return RepeatedRuns(tuple(run(int(seed)) for seed in requested))


def execute_seeds(
    config: RunConfig,
    *,
    out: Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_seed: OnSeed | None = None,
    track: Sequence[str | Tracker] = (),
    jobs: int | None = None,
    engine: str | None = None,
) -> RepeatedRuns:
    """Run a configuration with ``run.seeds`` seeds, starting at ``run.seed``.

    Each seed has a folder in ``seeds/`` with the same files as a single run with that seed.

    Args:
        config: the configuration.
        out: a new folder for all runs; None: runs are not saved.
        resume: whether to resume this experiment in ``out``.
        on_round: called with the record of every round.
        on_seed: called before each run with the number of the run (from 0) and its seed.
        track: trackers, by name or object.
        jobs: number of parallel seeds, in processes of one core each. Parallel seeds need a folder
            and do not support trackers. ``on_seed`` and ``on_round`` are called when a seed is
            finished.
        engine: where these processes run; default: this machine. ``ray``, or ``ray:`` and an
            address: a Ray cluster of machines, with one process on each core unless ``jobs`` is
            set.

    Raises the errors of ``execute``.
    """
    metrics = tracker_of(config.metrics)
    with (
        operated(config.metrics, metrics, folder_checks(out)),
        folder_lock(out),
        interruptible(),
    ):
        return _execute_seeds(
            config,
            out=out,
            resume=resume,
            on_round=on_round,
            on_seed=on_seed,
            track=[*track, *metrics],
            jobs=jobs,
            engine=engine,
        )


def _execute_seeds(
    config: RunConfig,
    *,
    out: Path | None,
    resume: bool,
    on_round: OnRound | None,
    on_seed: OnSeed | None,
    track: Sequence[str | Tracker],
    jobs: int | None,
    engine: str | None,
) -> RepeatedRuns:
    """Check the arguments, run all seeds, and write the files about all seeds, as ``execute_seeds``
    says.

    If an error comes before the first run, a new folder is removed, so that the command can be
    repeated.
    """
    check_jobs(jobs, [config], engine)
    if several(jobs, engine) and (out is None or track):
        how = f"jobs={jobs}" if engine is None else f"engine={engine}"
        raise ConfigError(
            f"{how} needs a folder for the runs and does not support trackers; set the folder, or "
            "run the seeds one after another"
        )
    trackers = make_trackers(track, out)
    experiment, methods = from_config(config, resume, on_round)
    experiment = dataclasses.replace(experiment, trackers=trackers)
    experiment.check(methods)
    digests = experiment.worlds.digests()
    identity = fingerprint(experiment.description, *digests)
    assert config.run.seeds
    seeds = seeds_of(config.run.seed, config.run.seeds)
    folder = None
    if out is not None:
        if resume and (out / run_folder.METRICS).exists():
            raise CheckpointError(
                f"{out} holds one run, not several seeds; start them in another folder"
            )
        if not resume:
            run_folder.refuse_others(out, (CURVES, COMPARISONS, SEEDS))
        opened = Folder.reopen if resume else Folder.create
        folder = opened(out, experiment.description, identity)
        _refuse_fewer_rounds(out, seeds, config.run.rounds)
        folder.describe()
    runs: list[Run] = []
    try:
        if several(jobs, engine) and out is not None:
            work = [
                Job(seed, config.description(), seed, out / SEEDS / str(seed)) for seed in seeds
            ]
            runs = _side_by_side(run_side_by_side(work, jobs, engine), on_round, on_seed)
        else:
            runs = _one_after_another(
                experiment, methods, config=config, digests=digests, out=out, on_seed=on_seed
            )
    except Exception:
        if folder and not resume and not (folder.path / SEEDS).exists():
            folder.abandon()
        raise
    repeated = RepeatedRuns(tuple(runs))
    if out is not None:
        repeated.write(out)
        _warn_of_other_seeds(out, seeds)
    return repeated


def _one_after_another(
    experiment: Experiment[SimulatedWorlds],
    methods: Methods,
    *,
    config: RunConfig,
    digests: Digests,
    out: Path | None,
    on_seed: OnSeed | None,
) -> list[Run]:
    """Run all seeds in this process.

    Args:
        experiment: the experiment, with the data of the first seed.
        methods: the methods, with the main method first.
        config: the configuration.
        digests: digests of the data and the model.
        out: the folder of all runs; None: runs are not saved.
        on_seed: called before each run.
    """
    assert config.run.seeds
    runs = []
    for number, seed in enumerate(seeds_of(config.run.seed, config.run.seeds)):
        if on_seed:
            on_seed(number, seed)
        if config.draws_data and number:
            experiment = _with_drawn_data(experiment, config, seed)
            experiment.with_seed(seed).check(methods)
            digests = experiment.worlds.digests()
        inner = out / SEEDS / str(seed) if out else None
        begun = experiment.resume and inner is not None and holds_run(inner)
        runs.append(experiment.with_seed(seed).side_by_side(methods, digests, inner, begun))
    return runs


def _with_drawn_data(
    experiment: Experiment[SimulatedWorlds], config: RunConfig, seed: int
) -> Experiment[SimulatedWorlds]:
    """The experiment with the data that a seed draws (``data.seed = "run"``), and a model for
    them."""
    drawn, _ = from_config(config, seed=seed)
    return dataclasses.replace(experiment, worlds=drawn.worlds)


def _side_by_side(
    side_by_side: Generator[Outcome, None, None], on_round: OnRound | None, on_seed: OnSeed | None
) -> list[Run]:
    """Run seeds in separate processes.

    If a seed fails, the failure is logged and the other seeds continue. The first error is raised
    at the end, because statistics need all seeds.
    """
    errors: list[Exception] = []
    finished: dict[int, Run] = {}
    with closing(side_by_side) as outcomes:  # an error ends the processes now
        for number, outcome in enumerate(outcomes):
            seed = outcome.job.seed
            if outcome.error is not None:
                _log.warning("seed %d was not run: %s", seed, outcome.error)
                errors.append(outcome.error)
                continue
            run = finished[seed] = Run.load(outcome.job.out)
            if on_seed:
                on_seed(number, seed)
            if on_round:
                for method_run in (run, *run.against.values()):
                    replay(method_run, on_round)
    if errors:
        raise errors[0]
    return [finished[seed] for seed in sorted(finished)]


def _refuse_fewer_rounds(out: Path, seeds: Iterable[int], rounds: int) -> None:
    """Raise CheckpointError if a seed already has more than ``rounds`` rounds."""
    for seed in seeds:
        for records in sorted((out / SEEDS / str(seed)).rglob(run_folder.METRICS)):
            last = len(complete_lines(records)) - 1
            if last > rounds:
                raise CheckpointError(
                    f"{records.parent} is already at round {last}; run.rounds must be at least "
                    f"that, got {rounds}"
                )


def _warn_of_other_seeds(out: Path, seeds: Iterable[int]) -> None:
    """Warn if the folder has further seeds of an earlier run, which are not counted."""
    others = sorted(
        p.name for p in (out / SEEDS).iterdir() if p.name not in {str(seed) for seed in seeds}
    )
    if others:
        _log.warning(
            "%s: the stored seeds %s are not counted, because run.seeds is smaller now",
            out,
            ", ".join(others),
        )
