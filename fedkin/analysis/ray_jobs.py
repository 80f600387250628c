"""Parallel runs on a Ray cluster (extra ``ray``), each in a Ray actor, a process with one core.

Each actor writes its run folder, so all machines must reach the folder under the same path. If an
actor or its machine dies, the actor is replaced, and the run resumes from its last checkpoint.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from fedkin.analysis.jobs import Job, Outcome, work
from fedkin.core.errors import ConfigError
from fedkin.run.interruption import raise_if_interrupted
from fedkin.simulation.one_core import one_core_variables
from fedkin.simulation.ray.pool import Cluster, check_versions, versions

_POLL = 0.2  # seconds between checks for a signal
_TRIES = 3  # number of attempts for a run if its process dies
_log = logging.getLogger("fedkin")


def run_on_cluster(
    jobs: Sequence[Job], workers: int | None, engine: str
) -> Generator[Outcome, None, None]:
    """Run jobs on a Ray cluster, started in order. Each outcome is yielded when its job ends. The
    actors end with the caller.

    Args:
        jobs: the jobs, each a run with one seed.
        workers: number of parallel jobs; None: one on each core of the cluster.
        engine: ``ray``, or ``ray:`` and an address.
    """
    cluster = Cluster(engine, None)
    ray = cluster.ray
    # Absolute paths, since actors start in another directory.
    left = [job._replace(out=job.out.resolve()) for job in jobs]
    originals = {job.out: original for job, original in zip(left, jobs, strict=True)}
    deaths = Counter[Path]()
    runner = ray.remote(
        num_cpus=1, scheduling_strategy="SPREAD", runtime_env={"env_vars": one_core_variables()}
    )(_Runner)
    idle = [runner.remote() for _ in range(min(len(left), workers or cluster.total_cores))]
    running: dict[Any, tuple[Job, Any]] = {}
    folder = str(Path.cwd())
    path = list(sys.path)
    here = versions()
    try:
        while left or running:
            while left and idle:
                actor = idle.pop()
                job = left.pop(0)
                running[actor.run.remote(job, folder, path, here)] = (job, actor)
            ended, _ = ray.wait(list(running), timeout=_POLL)
            raise_if_interrupted()
            for future in ended:
                job, actor = running.pop(future)
                died = False
                try:
                    error = ray.get(future)
                except ray.exceptions.RayError as death:  # the actor or its machine died
                    actor = runner.remote()
                    error = _death(death)
                    died = True
                    deaths[job.out] += 1
                idle.append(actor)
                # If its process died, the run is resumed by another actor, as the machine may be
                # the cause.
                if died and deaths[job.out] < _TRIES:
                    _log.warning("%s: %s; the run is started again", job.out, error)
                    left.insert(0, job)
                    continue
                yield Outcome(originals[job.out], error)
    finally:
        for actor in (*idle, *(actor for _, actor in running.values())):
            ray.kill(actor)


def _death(error: Exception) -> ConfigError:
    """The error that is reported for a run whose Ray actor (process) died."""
    reason = str(error).strip().splitlines()[-1]
    return ConfigError(
        f"the run's process on the cluster died ({type(error).__name__}: {reason}); resume "
        "to try it again"
    )


class _Runner:
    """Ray actor that runs one job after another."""

    def run(self, job: Job, folder: str, path: list[str], here: dict[str, str]) -> Exception | None:
        """Run a job. Returns the error if the run did not finish, otherwise None.

        Args:
            job: the job, a run with one seed.
            folder: the caller's working directory, at which relative paths in the configuration
                start.
            path: the caller's module search path.
            here: the caller's versions of Python and libraries.
        """
        try:
            check_versions(platform.node(), versions(), here)
            if not Path(folder).is_dir():
                raise ConfigError(
                    f"machine {platform.node()} of the cluster cannot reach {folder}, to which it "
                    "must write; use a folder that all machines share"
                )
            # Relative paths and imports must work as in the caller.
            os.chdir(folder)
            sys.path += [entry for entry in path if entry not in sys.path]
            work(job)
        # Returned and not raised: a failed run must not end the actor, which has further jobs.
        except Exception as error:
            return error
        return None
