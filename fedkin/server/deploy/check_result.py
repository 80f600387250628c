"""What a check has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fedkin.core.errors import FedkinError

Mark = Literal["✓", "!", "✗"]  # as it should be, perhaps not, wrong


@dataclass(frozen=True)
class Finding:
    """One line of a check: of what, how it is, and, where it is not as it should be, what to do about it."""

    what: str
    said: str
    mark: Mark = "✓"


def tried(what: str, check: Callable[[], str | Finding]) -> Finding:
    """What a check says; the errors that fedkin raises on purpose say what is wrong."""
    try:
        said = check()
    except FedkinError as error:
        return wrong(what, " ".join(str(error).split()))
    return said if isinstance(said, Finding) else Finding(what, said)


def wrong(what: str, said: str) -> Finding:
    return Finding(what, said, "✗")


def doubtful(what: str, said: str) -> Finding:
    return Finding(what, said, "!")


def any_wrong(findings: Iterable[Finding]) -> bool:
    return any(finding.mark == "✗" for finding in findings)
