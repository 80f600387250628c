"""Runs in other processes. A process gets a job (a configuration, a seed and a folder) and writes
the run to the folder; no other data are exchanged."""

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
from fedkin.run.stopping import asks_to_stop
from fedkin.run.worlds import Digests, named_methods

_log = logging.getLogger("fedkin")


def replay(run: Run, on_round: OnRound) -> None:
    """Call a listener (the caller's ``on_round``) with all records of a run that has ended in
    another process. Since the run has ended, the listener cannot stop it.

    Args:
        run: the finished run.
        on_round: the listener.
    """
    stops = [asks_to_stop(on_round(record)) for record in run.records]
    if any(stops):
        _log.warning(
            "%s: a callback returned STOP after round %d, but the run had already ended, because "
            "with several jobs callbacks are called at the end; use run.until or run.patience, or "
            "one job",
            run.config.method_name,
            stops.index(True),
        )


class Earlier(NamedTuple):
    """A finished run in the same setting as a job, by which the job's process checks that the data
    have not changed."""

    config: Description
    fingerprint: str
    folder: str


class Job(NamedTuple):
    """A run with one seed, to be executed in another process.

    Attributes:
        key: any value by which the caller recognises the job.
        description: the complete configuration (``RunConfig.description``).
        seed: the run's seed.
        out: the run's folder; an unfinished run there is resumed.
        earlier: finished runs in the same setting, on the same data.
    """

    key: Any
    description: Description
    seed: int
    out: Path
    earlier: tuple[Earlier, ...] = ()


class Outcome(NamedTuple):
    """A job that has ended. ``error`` is the reason if its run did not finish, and None if it
    did."""

    job: Job
    error: Exception | None


def several(jobs: int | None, engine: str | None) -> bool:
    """Whether runs are executed in other processes and not in this one.

    Args:
        jobs: number of parallel runs; None: one, or with ``engine`` one on each core of the
            cluster.
        engine: name of the Ray cluster on which runs are executed; None: this machine.
    """
    return engine is not None or jobs not in (None, 1)


def check_jobs(jobs: int | None, configs: Sequence[RunConfig], engine: str | None = None) -> None:
    """Raise ConfigError for configurations that cannot run in processes of one core each.

    Args:
        jobs: the number of processes.
        configs: configurations of the runs.
        engine: name of the Ray cluster on which runs are executed; None: this machine.
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
        alone = "remove the engine"
    for config in configs:
        for entry in config.methods:
            if user_methods.only_here(entry.name):
                raise ConfigError(
                    f"{how}: other processes cannot import {entry.name!r}; put the class into a "
                    f"separate module, or {alone}"
                )
        if (config.run.devices or 1) > 1:
            raise ConfigError(f"{how}: each process has one core; remove run.devices, or {alone}")
        if config.run.engine is not None:
            raise ConfigError(f"{how}: each process has one core; remove run.engine, or {alone}")


class _Prepared(NamedTuple):
    """What a process keeps from one job to the next: the experiment of a setting (everything but
    method and seed), with its data, model and compiled programs."""

    setting: str
    experiment: Experiment
    digests: Digests


_prepared: _Prepared | None = None


def work(job: Job) -> None:
    """Run or resume a job (a configuration, a seed and a folder) in this process."""
    config = from_dict(job.description.sections)
    experiment, digests = _experiment(config, job.seed)
    # Runs are compared only if they have the same data, which may have changed on disk meanwhile.
    for earlier in job.earlier:
        if fingerprint(earlier.config, *digests) != earlier.fingerprint:
            raise CheckpointError(
                f"{earlier.folder} was run on other data, or with another model or version of JAX, "
                "than the other runs would use; start the comparison again in another folder"
            )
    methods = named_methods(config.methods)
    # The experiment knows the digest of a backbone, which the configuration need not name.
    described = config.description().with_sections({"model": experiment.description.model})
    seeded = dataclasses.replace(experiment, description=described).with_seed(job.seed)
    seeded.check(methods)
    seeded.side_by_side(methods, digests, job.out, holds_run(job.out))


def _experiment(config: RunConfig, seed: int) -> tuple[Experiment, Digests]:
    """The experiment of a setting, and the digests of its data. They are reused if the previous job
    had the same setting and data."""
    global _prepared
    described = config.description().with_run(against=None)
    # A setting is a configuration without its method and the methods it is compared with.
    parts = {**described.sections, "method": None}
    if config.draws_data:
        parts["drawn by"] = seed
    setting = json.dumps(parts, sort_keys=True, default=str)
    if _prepared is None or _prepared.setting != setting:
        # Free the previous setting's data first, because two data sets may not fit into memory.
        _prepared = None
        experiment, _ = from_config(config, seed=seed)
        _prepared = _Prepared(setting, experiment, experiment.worlds.digests())
    return _prepared.experiment, _prepared.digests
