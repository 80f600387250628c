"""What a check has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fedkin.core.errors import FedkinError

Mark = Literal["✓", "!", "✗"]  # as it should be, perhaps not, wrong


@dataclass(frozen=True)
class CheckResult:
    """One line of a check: of what, how it is, and, where it is not as it should be, what to do about it."""

    what: str
    said: str
    mark: Mark = "✓"


def tried(what: str, check: Callable[[], str | CheckResult]) -> CheckResult:
    """What a check says; the errors that fedkin raises on purpose say what is wrong."""
    try:
        said = check()
    except FedkinError as error:
        return wrong(what, " ".join(str(error).split()))
    return said if isinstance(said, CheckResult) else CheckResult(what, said)


def wrong(what: str, said: str) -> CheckResult:
    return CheckResult(what, said, "✗")


def doubtful(what: str, said: str) -> CheckResult:
    return CheckResult(what, said, "!")


def any_wrong(findings: Iterable[CheckResult]) -> bool:
    return any(finding.mark == "✗" for finding in findings)
