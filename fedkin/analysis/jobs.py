"""Runs in other processes. Each gets a configuration and writes a run folder; processes exchange
nothing else."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.config import user_methods
from fedkin.config.description import Description
from fedkin.config.plan import check_engine
from fedkin.config.run import RunConfig, from_dict
from fedkin.config.schema import check_integer
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.run.callbacks import OnRound
from fedkin.run.experiment import Experiment
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.run_folder import holds_run
from fedkin.run.run import Run
from fedkin.run.simulate import from_config
from fedkin.run.stopping import STOP
from fedkin.run.worlds import Digests, named_methods

_log = logging.getLogger("fedkin")


def replay(run: Run, on_round: OnRound) -> None:
    """Call a function with every record of a run that ended in another process; it cannot stop the
    run.

    Args:
        run: the finished run.
        on_round: the caller's function.
    """
    replies = [on_round(record) for record in run.records]
    if STOP in replies:
        _log.warning(
            "%s: a callback returned STOP after round %d, and the run had ended: with several jobs "
            "it is called at the end; use run.until or run.patience, or one job",
            run.config.method_name,
            replies.index(STOP),
        )


class Earlier(NamedTuple):
    """A finished run in the same setting, to check that data have not changed."""

    config: Description
    fingerprint: str
    folder: str


class Job(NamedTuple):
    """A run from one seed.

    Attributes:
        key: the caller's key for the job.
        description: of its complete configuration (``RunConfig.description``).
        seed: of the run.
        out: its folder; an unfinished run there is resumed.
        earlier: finished runs in the same setting.
    """

    key: Any
    description: Description
    seed: int
    out: Path
    earlier: tuple[Earlier, ...] = ()


class Outcome(NamedTuple):
    """An ended job; ``error`` is None if its run is finished."""

    job: Job
    error: Exception | None


def several(jobs: int | None, engine: str | None) -> bool:
    """Whether runs are executed in other processes.

    Args:
        jobs: number of parallel runs; None for one, or for one on each core of an engine.
        engine: None, or a cluster.
    """
    return engine is not None or jobs not in (None, 1)


def check_jobs(jobs: int | None, configs: Sequence[RunConfig], engine: str | None = None) -> None:
    """Raise ConfigError for configurations that cannot run in processes of one core each.

    Args:
        jobs: the number of processes.
        configs: of the runs.
        engine: the cluster that runs them; None: this machine.
    """
    if jobs is not None:
        check_integer("jobs", jobs, 1)
    check_engine(engine)
    if not several(jobs, engine):
        return
    how = f"jobs={jobs}"
    alone = "leave jobs at 1"
    if engine is not None:
        how = f"engine={engine}"
        alone = "leave out the engine"
    for config in configs:
        for entry in config.methods:
            if user_methods.only_here(entry.name):
                raise ConfigError(
                    f"{how}: no other process can import {entry.name!r}: put the class into a "
                    f"module of its own, or {alone}"
                )
        if (config.run.devices or 1) > 1:
            raise ConfigError(f"{how}: a process has one core; leave out run.devices, or {alone}")
        if config.run.engine is not None:
            raise ConfigError(f"{how}: a process has one core; leave out run.engine, or {alone}")


class _Prepared(NamedTuple):
    """What a process keeps between jobs: the setting, its data, model and compiled programs."""

    setting: str
    experiment: Experiment
    digests: Digests


_prepared: _Prepared | None = None


def work(job: Job) -> None:
    """Run or resume a job in this process."""
    config = from_dict(job.description.sections)
    experiment, digests = _experiment(config)
    for earlier in job.earlier:
        if fingerprint(earlier.config, *digests) != earlier.fingerprint:
            raise CheckpointError(
                f"{earlier.folder} was run on other data, or with another model or version of JAX, "
                "than its others would be now; start the comparison again in another folder"
            )
    methods = named_methods(config.methods)
    seeded = dataclasses.replace(experiment, description=config.description()).with_seed(job.seed)
    seeded.check(methods)
    seeded.side_by_side(methods, digests, job.out, holds_run(job.out))


def _experiment(config: RunConfig) -> tuple[Experiment, Digests]:
    """The experiment of a setting and its digests; reused if the previous job had the same
    setting."""
    global _prepared
    described = config.description().with_run(against=None)
    setting = json.dumps({**described.sections, "method": None}, sort_keys=True, default=str)
    if _prepared is None or _prepared.setting != setting:
        # Release the previous setting's data first, because two data sets may not fit into memory.
        _prepared = None
        experiment, _ = from_config(config)
        _prepared = _Prepared(setting, experiment, experiment.worlds.digests())
    return _prepared.experiment, _prepared.digests
