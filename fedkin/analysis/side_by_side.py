"""Runs side by side, in processes of one core each.

A process is told what to run by a configuration, and writes a run folder; nothing else passes between processes. Each
has a pool of its own, so that one that dies takes its own run away and no other.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.config import own_methods, registry
from fedkin.config.run import RunConfig, from_dict
from fedkin.config.schema import check_integer
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.run.fingerprint import fingerprint
from fedkin.run.interruption import SIGNALS, raise_if_interrupted
from fedkin.run.lifecycle import Digests, Experiment, Methods
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.run.run_folder import holds_run
from fedkin.run.simulate import from_config
from fedkin.run.stopping import STOP

SECONDS_TO_END = 5
POLL = 0.2  # seconds between looks for a signal
_log = logging.getLogger("fedkin")
# One device, no threads in matrix products (XLA's and NumPy's), and one thread for programs: several processes with as
# many threads as there are cores spend a third of their time on switches and on waiting in loops. The same bits.
ONE_CORE = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=1 --xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def replay(run: Run, on_round: OnRound) -> None:
    """Call with the record of every round of a run that has ended in another process; nothing is left to stop.

    Args:
        run: the finished run.
        on_round: the caller's own.
    """
    replies = [on_round(record) for record in run.records]
    if STOP in replies:
        _log.warning(
            "%s: on_round returned STOP after round %d, and the run had ended: with several jobs it is called at the "
            "end; use run.until or run.patience, or one job",
            run.config["method"]["name"],
            replies.index(STOP),
        )


class Earlier(NamedTuple):
    """A finished run on the same data: a new one must be made of the same."""

    config: dict[str, Any]
    fingerprint: str
    folder: str


class Job(NamedTuple):
    """A run from one seed.

    Attributes:
        key: what its caller knows it by.
        description: of its configuration, spelled out (``RunConfig.description``).
        seed: of the run.
        out: its folder; a run that was begun there goes on.
        earlier: finished runs in the same setting.
    """

    key: Any
    description: dict[str, Any]
    seed: int
    out: Path
    earlier: tuple[Earlier, ...] = ()


class Outcome(NamedTuple):
    """A job that has ended; ``error`` is None where its run is finished."""

    job: Job
    error: Exception | None


def check_jobs(jobs: int, configs: Sequence[RunConfig]) -> None:
    """Refuse (ConfigError) what cannot run in processes of one core each.

    Args:
        jobs: the number of processes.
        configs: of the runs.
    """
    check_integer("jobs", jobs, 1)
    if jobs == 1:
        return
    for config in configs:
        for entry in (config.method, *config.against):
            if own_methods.only_here(entry["name"]):
                raise ConfigError(
                    f"jobs={jobs}: no other process can import {entry['name']!r}: put the class into a module of its "
                    "own, or leave jobs at 1"
                )
        if (config.run.devices or 1) > 1:
            raise ConfigError(f"jobs={jobs}: a process has one core; leave out run.devices, or leave jobs at 1")


def run_side_by_side(jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, None]:
    """Run jobs in their order, so many at a time; each is yielded when it has ended, whichever comes first.

    When the caller stops, by Ctrl-C for one, the processes are ended at once; their run folders can be resumed.

    Args:
        jobs: what to run.
        workers: processes.
    """
    left = list(jobs)
    with _one_core():
        pools = [_pool(place, workers) for place in range(min(workers, len(left)))]
        running: dict[Future[None], tuple[Job, int]] = {}
        try:
            for place, pool in enumerate(pools):
                job = left.pop(0)
                running[_submit(pool, job)] = job, place
            while running:
                done, _ = wait(running, POLL, return_when=FIRST_COMPLETED)
                raise_if_interrupted()
                for future in done:
                    job, place = running.pop(future)
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        error = ConfigError(f"its process died{_exit_status(pools[place])}; resume to try it again")
                        pools[place] = _pool(place, workers)
                    if left:
                        following = left.pop(0)
                        running[_submit(pools[place], following)] = following, place
                    if error is not None and not isinstance(error, Exception):
                        raise error
                    yield Outcome(job, error)
        finally:
            for pool in pools:
                _stop(pool)


class _Prepared(NamedTuple):
    """What a process keeps from one job to the next: the setting, its data, model and compiled programs."""

    setting: str
    experiment: Experiment
    digests: Digests


_prepared: _Prepared | None = None


def _work(job: Job) -> None:
    """Run a job, in a process of its own."""
    config = from_dict(job.description)
    experiment, digests = _experiment(config)
    for one in job.earlier:
        if fingerprint(one.config, *digests) != one.fingerprint:
            raise CheckpointError(
                f"{one.folder} was run on other data, or with another model or version of JAX, than its others would "
                "be now; start the comparison anew in another folder"
            )
    methods: Methods = [(entry, registry.make(registry.methods(), entry)) for entry in (config.method, *config.against)]
    seeded = dataclasses.replace(experiment, description=config.description()).with_seed(job.seed)
    seeded.check(methods)
    seeded.side_by_side(methods, digests, job.out, holds_run(job.out))


def _experiment(config: RunConfig) -> tuple[Experiment, Digests]:
    """The experiment of a setting, and its digests; that of the job before where the setting is the same."""
    global _prepared
    described = config.description()
    run = {key: value for key, value in described["run"].items() if key != "against"}
    setting = json.dumps({**described, "run": run, "method": None}, sort_keys=True, default=str)
    if _prepared is None or _prepared.setting != setting:
        _prepared = None  # else two data sets are in memory at once
        experiment, _ = from_config(config)
        _prepared = _Prepared(setting, experiment, experiment.worlds.digests())
    return _prepared.experiment, _prepared.digests


def _submit(pool: ProcessPoolExecutor, job: Job) -> Future[None]:
    """Give a job to a process, which starts with the first. It is not to import the caller's script again, which may
    have no ``if __name__ == "__main__"``."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        return pool.submit(_work, job)
    finally:
        sys.modules["__main__"] = main


def _pool(place: int, workers: int) -> ProcessPoolExecutor:
    """One process that ends when this one does, and leaves signals of the terminal to it."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, spawn, initializer=_prepare_process, initargs=(_core(place, workers),))


def _core(place: int, workers: int) -> int | None:
    """The core that a process stays on where there is a process for each; None where the system is to choose.

    With fewer processes than cores, another program's could be idle or taken, and only the system knows.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[place % len(cores)] if cores and workers >= len(cores) else None


def _prepare_process(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    for number in SIGNALS:
        if number != signal.SIGTERM:  # by which the parent ends it
            signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed frees the lock of the folder: nobody else may write there then."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _exit_status(pool: ProcessPoolExecutor) -> str:
    """How the process of a broken pool ended, where that is known."""
    codes = [process.exitcode for process in (pool._processes or {}).values()]
    known = [f"by signal {-code}" if code < 0 else f"with status {code}" for code in codes if code]
    return f" ({', '.join(known)}; of signal 9 too little memory is the usual cause)" if known else ""


def _stop(pool: ProcessPoolExecutor) -> None:
    """End a process at once."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:  # one that is just being started may not hear that
        process.join(SECONDS_TO_END)
        if process.is_alive():
            process.kill()


@contextmanager
def _one_core() -> Iterator[None]:
    """Processes that are started meanwhile have one core each."""
    before = {name: os.environ.get(name) for name in ONE_CORE}
    os.environ |= ONE_CORE | {"XLA_FLAGS": f"{before['XLA_FLAGS'] or ''} {ONE_CORE['XLA_FLAGS']}".strip()}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
