"""Runs on a cluster: which runs are started again, without Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedkin.analysis import ray_jobs
from fedkin.analysis.jobs import Job
from fedkin.config.description import Description
from fedkin.core.errors import ConfigError


class _RayError(Exception):
    """Ray's error for a process that has died."""


class _Ray:
    """Stands for Ray: each attempt of a job ends as the next entry of ``ends`` says."""

    def __init__(self, ends: list[Exception | None]) -> None:
        self.ends = ends
        self.exceptions = SimpleNamespace(RayError=_RayError)
        self.attempts = 0

    def remote(self, **_: Any) -> Callable[[type], Any]:
        actor = SimpleNamespace(run=SimpleNamespace(remote=self._start))
        return lambda kind: SimpleNamespace(remote=lambda: actor)

    def _start(self, *_: Any) -> int:
        self.attempts += 1
        return self.attempts

    def wait(self, running: list[int], timeout: float) -> tuple[list[int], list[int]]:
        return running, []

    def get(self, attempt: int) -> Exception | None:
        end = self.ends[attempt - 1]
        if isinstance(end, _RayError):
            raise end
        return end

    def kill(self, actor: Any) -> None:
        pass


def attempts_and_error(
    ends: list[Exception | None], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Exception | None]:
    """How often a job was started whose attempts end like this, and its error."""
    ray = _Ray(ends)
    monkeypatch.setattr(ray_jobs, "Cluster", lambda *_: SimpleNamespace(ray=ray, total_cores=1))
    job = Job(key=0, description=Description({}), seed=0, out=Path("run"))
    (outcome,) = ray_jobs.run_on_cluster([job], workers=1, engine="ray")
    return ray.attempts, outcome.error


def test_a_run_whose_process_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempts_and_error([_RayError("gone"), None], monkeypatch) == (2, None)
    attempts, error = attempts_and_error([_RayError("gone")] * 3, monkeypatch)
    assert attempts == 3 and "the run's process on the cluster died" in str(error)


def test_a_run_that_fails_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after an earlier death either: its error would come again and again."""
    error = ConfigError("other versions")
    assert attempts_and_error([error], monkeypatch) == (1, error)
    assert attempts_and_error([_RayError("gone"), error], monkeypatch) == (2, error)
