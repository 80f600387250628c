"""The result of a check before a deployment starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fedkin.core.errors import FedkinError

Mark = Literal["✓", "!", "✗"]  # passed, doubtful, failed


@dataclass(frozen=True)
class CheckResult:
    """One line of a check: its subject, its result, and how to fix a check that did not pass."""

    name: str
    detail: str
    mark: Mark = "✓"


def run_check(name: str, check: Callable[[], str | CheckResult]) -> CheckResult:
    """Run a check. An error of fedkin becomes a failed result."""
    try:
        result = check()
    except FedkinError as error:
        return failed(name, " ".join(str(error).split()))
    return result if isinstance(result, CheckResult) else CheckResult(name, result)


def failed(name: str, detail: str) -> CheckResult:
    """The result of a check that failed."""
    return CheckResult(name, detail, "✗")


def doubtful(name: str, detail: str) -> CheckResult:
    """The result of a check that found a possible problem, which does not prevent a start."""
    return CheckResult(name, detail, "!")


def any_failed(results: Iterable[CheckResult]) -> bool:
    """Whether any check failed."""
    return any(result.mark == "✗" for result in results)
