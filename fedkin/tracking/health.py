"""Health of a long-running process: the checks behind ``/readyz``, and their result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

Status = Literal["pass", "warn", "fail"]
_WORSE: tuple[Status, ...] = ("pass", "warn", "fail")
LEAST_FREE = 100e6  # bytes; with less, a disk fails its check
LITTLE_FREE = 1e9  # bytes; with less, a disk is a warning
MOST_DEADLINES = 3  # deadlines within which a round must end


class Check(NamedTuple):
    """The result of one check."""

    status: Status
    output: str


Checks = Mapping[str, Callable[[], Check | None]]


class Health(NamedTuple):
    """The results of all checks that apply, by name."""

    checks: dict[str, Check]

    @property
    def status(self) -> Status:
        """The worst status of all checks."""
        found = [_WORSE.index(check.status) for check in self.checks.values()]
        return _WORSE[max(found, default=0)]

    @property
    def ready(self) -> bool:
        """Whether no check fails."""
        return self.status != "fail"

    def values(self) -> dict[str, Any]:
        """The content of the answer as JSON values."""
        checks = {name: [check._asdict()] for name, check in self.checks.items()}
        return {"status": self.status, "checks": checks}


def health_of(checks: Checks) -> Health:
    """Run all checks. A check that raises an error fails; one that returns None does not apply.

    Args:
        checks: functions by the name of their check.
    """
    results = {}
    for name, run in checks.items():
        try:
            result = run()
        except Exception as error:
            result = Check("fail", f"{type(error).__name__}: {error}")
        if result is not None:
            results[name] = result
    return Health(results)


def disk_check(folder: Path) -> Check:
    """Whether the disk of a folder has room. The folder may not exist yet."""
    present = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()
    )
    free = shutil.disk_usage(present).free
    text = f"{free / 1e9:.1f} GB free at {present}"
    if free < LEAST_FREE:
        return Check("fail", text)
    return Check("warn" if free < LITTLE_FREE else "pass", text)


def round_check(last: float | int | None, deadline: float | int, now: float | int) -> Check | None:
    """Whether the last round ended within a few deadlines; None before the first round.

    Args:
        last: when the last round ended, in seconds since the epoch; None before the first.
        deadline: seconds that a round has.
        now: the present time, in seconds since the epoch.
    """
    if last is None:
        return None
    age = now - last
    text = f"the last round ended {age:.0f} s ago; the deadline is {deadline:g} s"
    return Check("fail" if age > MOST_DEADLINES * deadline else "pass", text)
