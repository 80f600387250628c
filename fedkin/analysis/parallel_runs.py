"""Parallel runs in processes of one core each, on this machine or on a Ray cluster of machines.

Each process on this machine has a separate ``ProcessPoolExecutor``: if a process of a larger pool
died, the runs of all its processes would fail.
"""

from __future__ import annotations

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

from fedkin.analysis.jobs import Job, Outcome, work
from fedkin.core.errors import ConfigError
from fedkin.run.interruption import SIGNALS, raise_if_interrupted
from fedkin.simulation.one_core import one_core_variables

SECONDS_TO_END = 5
POLL = 0.2  # seconds between checks for a signal


def run_side_by_side(
    jobs: Sequence[Job], workers: int | None, engine: str | None = None
) -> Generator[Outcome, None, None]:
    """Run jobs in parallel, started in order. Each outcome is yielded when its job ends.

    If the caller stops, for example by Ctrl-C, the processes are ended at once. Their run folders
    can be resumed.

    Args:
        jobs: the jobs, each a run with one seed.
        workers: number of processes; None: one, or with ``engine`` one on each core of the cluster.
        engine: None for processes of this machine; ``ray``, or ``ray:`` and the address of a Ray
            cluster.
    """
    if engine is None:
        return _on_this_machine(jobs, workers or 1)
    from fedkin.analysis.ray_jobs import run_on_cluster

    return run_on_cluster(jobs, workers, engine)


def _on_this_machine(jobs: Sequence[Job], workers: int) -> Generator[Outcome, None, None]:
    """Run jobs in processes of this machine, as ``run_side_by_side`` describes."""
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
                        error = ConfigError(
                            f"the run's process died{_exit_status(pools[place])}; resume to retry"
                        )
                        # A pool whose process died cannot be used again.
                        pools[place] = _pool(place, workers)
                    if left:
                        following = left.pop(0)
                        running[_submit(pools[place], following)] = following, place
                    # Errors such as KeyboardInterrupt end all runs; others only fail the job.
                    if error is not None and not isinstance(error, Exception):
                        raise error
                    yield Outcome(job, error)
        finally:
            for pool in pools:
                _stop(pool)


def _submit(pool: ProcessPoolExecutor, job: Job) -> Future[None]:
    """Submit a job to a pool, which starts its process with the first job.

    The process must not import the caller's script, which may lack ``if __name__ == "__main__"``,
    so ``__main__`` is replaced for a moment.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        return pool.submit(work, job)
    finally:
        sys.modules["__main__"] = main


def _pool(place: int, workers: int) -> ProcessPoolExecutor:
    """A pool of one worker process. The worker ends when its parent, this process, ends. It ignores
    signals of the terminal (e.g. Ctrl-C), since the parent handles them.

    Args:
        place: number of the pool, from 0.
        workers: number of all pools.
    """
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        1, spawn, initializer=_prepare_process, initargs=(_core(place, workers),)
    )


def _core(place: int, workers: int) -> int | None:
    """The core to which a process is pinned. None: the system chooses.

    Processes are pinned only if there is one for each core. With fewer processes, the system knows
    better which cores are idle.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[place % len(cores)] if cores and workers >= len(cores) else None


def _prepare_process(core: int | None) -> None:
    """Prepare a new process before its first job: pin it to its core, and ignore signals of the
    terminal, which the parent process handles."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    # Ctrl-C reaches all processes of the terminal; only the parent handles it.
    for number in SIGNALS:
        if number != signal.SIGTERM:  # the parent ends this process with SIGTERM
            signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent dies.

    A killed parent releases the lock of the folder of all runs, and its children must not write
    there afterwards.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _exit_status(pool: ProcessPoolExecutor) -> str:
    """Text about how the process of a broken pool ended; empty if unknown."""
    codes = [process.exitcode for process in (pool._processes or {}).values()]
    ends = [f"by signal {-code}" if code < 0 else f"with status {code}" for code in codes if code]
    if not ends:
        return ""
    return f" ({', '.join(ends)}; the usual cause of signal 9 is too little memory)"


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the process of a pool at once, and wait until it has ended.

    A thread of the pool also waits for the process, and the system reports the exit status to only
    one of the two. If the thread gets it, the process may seem alive here for a moment, until the
    thread has recorded its end.
    """
    processes = list((pool._processes or {}).values())
    for process in processes:
        process.terminate()
    for process in processes:  # a process that is just starting may miss the signal
        process.join(SECONDS_TO_END)
        if process.is_alive():
            process.kill()
    pool.shutdown(cancel_futures=True)


@contextmanager
def _one_core() -> Iterator[None]:
    """Context manager in which new processes use one core each."""
    variables = one_core_variables()
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
