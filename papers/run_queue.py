"""Make the runs that the stores lack on all cores, the most valuable ones for their time first."""

from __future__ import annotations

import fcntl
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, FedkinError
from papers.catalogue import PAPERS
from papers.result_store import (
    Job,
    Line,
    keep,
    pending,
    prepare,
    read,
    seconds_of_rows,
    store_of,
    unfinished_of,
)
from papers.trust import runs as attacked

ONE_CORE = "--xla_cpu_multi_thread_eigen=false"  # while other runs go on; the same bits
TRUST = "trust"  # the store of the table of attacks, which is of no paper
RUNS_OF_A_PROCESS = 25  # then a new one: compiled programs stay in memory
# Jobs by the name of their paper: the keys of two papers may be the same.
Selection = Mapping[str, Sequence[Job]]


@dataclass(frozen=True)
class QueuedRun:
    """A run that the store lacks, with its value and its expected time.

    Attributes:
        paper: or ``trust``; the name of the store.
    """

    paper: str
    job: Job
    seed: int
    value: float
    seconds: float

    @property
    def rate(self) -> float:
        """Information per second."""
        return self.value / self.seconds


def queue(
    folder: Path, selected: Selection | None = None, seeds: Sequence[int] = ()
) -> list[QueuedRun]:
    """All runs that the stores lack, the most valuable for their time first.

    A cell's first run has the highest value: 1 if the paper prints a number, else a half (it may
    show a cause). A run after n others has 1/(n + 1)^2 of that value, about as much as it reduces
    the variance of a mean.

    Args:
        folder: of the stores.
        selected: only these jobs, by the name of their paper; None: all.
        seeds: only these; empty: the recipe's.
    """
    runs: list[QueuedRun] = []
    for paper in PAPERS.values():
        jobs = paper.jobs()
        stored = read(store_of(folder, paper.name), jobs).runs
        times = seconds_of_rows(jobs, stored)
        for job in jobs if selected is None else paper.jobs_among(selected.get(paper.name, ())):
            wanted = [seed for seed in job.seeds if not seeds or seed in seeds]
            missing = pending([(job, wanted)], stored)
            done = len(wanted) - len(missing)
            runs += [
                QueuedRun(
                    paper=paper.name,
                    job=job,
                    seed=seed,
                    value=_value(job, done + i),
                    seconds=max(times[job.row].seconds, 0.1),
                )
                for i, (_, seed) in enumerate(missing)
            ]
    return sorted(runs, key=lambda run: -run.rate)


def jobs_of(name: str) -> Sequence[Job]:
    """The jobs of a store.

    Args:
        name: of the store: a paper's, or ``trust``.
    """
    return attacked.jobs() if name == TRUST else PAPERS[name].jobs()


def _value(job: Job, earlier: int) -> float:
    return (1.0 if job.published else 0.5) / (1 + earlier) ** 2


def carry_out(
    runs: Sequence[QueuedRun], folder: Path, hours: float | None, workers: int
) -> Iterator[Line]:
    """Make the runs that fit into the time, in parallel. Each is stored as soon as it is done.

    A run that would end too late is passed over for shorter ones. If none is short enough, a run
    that can be resumed uses the rest of the time, and is stopped at its end. If a run fails,
    because its data are missing for example, its row is named on standard error, and no other run
    of the row is tried. Interrupt it at any time: the same command goes on with the remaining runs.

    Args:
        runs: in the order in which they shall start.
        folder: of the stores.
        hours: time limit in total; None: until all are done.
        workers: number of processes, one core each.
    """
    for paper in {run.paper for run in runs}:
        prepare(store_of(folder, paper))
    end = time.monotonic() + 3600 * hours if hours is not None else float("inf")
    left = list(runs)
    running = dict[Future[Line], QueuedRun]()
    pool = _pool(workers)
    try:
        while left or running:
            while len(running) < workers and (run := _next(left, end - time.monotonic())):
                left.remove(run)
                future = pool.submit(
                    _run,
                    paper=run.paper,
                    key=dict(run.job.key),
                    setting=run.job.setting(run.seed),
                    seed=run.seed,
                    unfinished=unfinished_of(folder),
                )
                running[future] = run
            if not running:
                return
            done, _ = wait(running, _seconds_to_wait(running.values(), end), FIRST_COMPLETED)
            if not done:
                return  # the time is over, and the next command continues the unfinished runs
            broken = any(isinstance(future.exception(), BrokenProcessPool) for future in done)
            if broken:  # all runs of the pool are lost
                done, _ = wait(running)
            for future in done:
                run = running.pop(future)
                if line := _result(future, run):
                    keep(line, store_of(folder, run.paper))
                    yield line
                else:
                    left = [
                        other
                        for other in left
                        if (other.paper, other.job.row) != (run.paper, run.job.row)
                    ]
            if broken:
                _stop(pool)
                pool = _pool(workers)
    finally:
        _stop(pool)


def _result(future: Future[Line], run: QueuedRun) -> Line | None:
    """The line of a run that has ended; None, and a word on standard error, where it failed."""
    error = future.exception()
    if error is None or not isinstance(error, Exception):
        return future.result()  # raises interruptions, which are no errors
    name = "" if isinstance(error, FedkinError) else f"{type(error).__name__}: "
    print(f"{run.paper}, {run.job.row}: not run: {name}{error}", file=sys.stderr, flush=True)
    return None


def _next(left: Sequence[QueuedRun], seconds: float) -> QueuedRun | None:
    """The first run that is expected to end in time, else the first that can be resumed later."""
    if seconds <= 0:
        return None
    in_time = (run for run in left if run.seconds <= seconds)
    resumable = (run for run in left if run.job.resumable)
    return next(itertools.chain(in_time, resumable), None)


def _seconds_to_wait(running: Iterable[QueuedRun], end: float) -> float | None:
    """How long to wait for one of the runs: to the end of the time if all can be resumed, else
    (None) until one has ended."""
    if end == float("inf") or not all(run.job.resumable for run in running):
        return None
    return max(0.0, end - time.monotonic())


def _run(paper: str, key: Mapping[str, Any], setting: str, seed: int, unfinished: Path) -> Line:
    """Run a job of another process, found by its key: jobs hold functions, which cannot be sent.

    Raises ConfigError if the recipe has been edited since.
    """
    job = next(
        (job for job in jobs_of(paper) if job.key == key and job.setting(seed) == setting), None
    )
    if job is None:
        raise ConfigError("the recipe has changed since this command began; start it again")
    return job.run(seed, unfinished)


def _pool(workers: int) -> ProcessPoolExecutor:
    """Processes with a core each, that leave Ctrl-C to this one and are renewed after some runs."""
    context = multiprocessing.get_context("spawn")
    if workers > 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_CORE}".strip()
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    owners = context.Array("q", workers)  # the process of each core
    return ProcessPoolExecutor(
        workers,
        context,
        initializer=_begin,
        initargs=(owners,),
        max_tasks_per_child=RUNS_OF_A_PROCESS,
    )


def _begin(owners: Any) -> None:
    """Begin as a process of a pool: leave Ctrl-C to the first one, and keep to a core that no other
    has.

    Where there are as many cores: processes that each wake threads on all of them get into each
    other's way.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not 1 < len(owners) <= len(cores):
        return
    with owners.get_lock():
        position = next((i for i, process in enumerate(owners[:]) if not _is_alive(process)), 0)
        owners[position] = os.getpid()
    os.sched_setaffinity(0, {cores[position]})
    # Threads of XLA. The first process may have a thread for each of its devices.
    os.environ["NPROC"] = "1"


def _is_alive(process: int) -> bool:
    """Whether a process, by its number, is running; 0 is none."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return process > 0


def _stop(pool: ProcessPoolExecutor) -> None:
    """Kill the processes. Their unfinished runs are made again later.

    SIGTERM would not end them: a run notes it and goes on to the end of its round. A process that
    SIGTERM does end may hold a lock that the others wait for.
    """
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()


def stored_runs(
    folder: Path,
    count: int,
    draw: int,
    selected: Selection | None = None,
    seeds: Sequence[int] = (),
) -> list[tuple[Job, Line]]:
    """Stored runs of today's recipes, drawn at random without replacement.

    Args:
        folder: of the stores.
        count: largest number of runs.
        draw: seed of the draw; the same seed and stores give the same runs.
        selected: only runs of these jobs, by the name of their paper; None: of all.
        seeds: only runs of these; empty: of all.
    """
    runs = []
    for paper in PAPERS.values():
        of_paper = () if selected is None else selected.get(paper.name, ())
        jobs = paper.jobs() if selected is None else paper.jobs_among(of_paper)
        for line in read(store_of(folder, paper.name), jobs).runs:
            if not seeds or line["seed"] in seeds:
                runs.append((next(job for job in jobs if job.matches(line)), line))
    return random.Random(draw).sample(runs, min(count, len(runs)))


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The stores for this process alone, so that no two make the same runs.

    Args:
        folder: of the stores.

    Raises:
        ConfigError: another process makes the missing runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"another command runs what {folder} lacks; wait for it, or stop it"
            ) from None
        yield
