"""From a schedule after which something does not hold to the smallest one, and its story."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.deterministic import federation, peer_federation, peer_schedule, schedule
from tests.deterministic.federation import Violation

_LINES = 40  # of a story, before its end


class Found(NamedTuple):
    """A seed, and the broken invariant."""

    seed: int
    text: str


def find(seed: int) -> Found | None:
    """What does not hold after the schedule of a seed, of a server and its nodes."""
    return _found(seed, violation_of(schedule.draw(seed), federation.run_schedule))


def find_kill(seed: int) -> Found | None:
    """The same where one of four sites is killed."""
    return _found(seed, violation_of(schedule.draw_kill(seed), federation.run_schedule))


def find_ledgers(seed: int) -> Found | None:
    """The same where sites write ledgers of what leaves them."""
    return _found(seed, violation_of(schedule.draw(seed), federation.run_with_ledgers))


def find_options(seed: int) -> Found | None:
    """The same where the run has options, and sites may have floors."""
    return _found(seed, violation_of(schedule.draw_options(seed), federation.run_schedule))


def find_peers(seed: int) -> Found | None:
    """The same of peers."""
    return _found(seed, violation_of(peer_schedule.draw(seed), peer_federation.run_schedule))


def _found(seed: int, violation: Violation | None) -> Found | None:
    return None if violation is None else Found(seed, str(violation)[:300])


def violation_of(drawn: Any, run: Callable[[Any], Any]) -> Violation | None:
    """What does not hold after a schedule."""
    try:
        run(drawn)
    except Violation as violation:
        return violation
    return None


def smallest(drawn: Any, run: Callable[[Any], Any]) -> Any:
    """The schedule without all faults that the violation does not need."""
    shorter = True
    while shorter:
        shorter = False
        for index in reversed(range(len(drawn.faults))):
            if violation_of(drawn.without(index), run) is not None:
                drawn = drawn.without(index)
                shorter = True
    return drawn


def story(drawn: Any, run: Callable[[Any], Any]) -> str:
    """A schedule, its events, and the broken invariant."""
    violation = violation_of(drawn, run)
    if violation is None:
        return f"{drawn}\nnothing is wrong"
    found: Any = vars(violation)["federation"]
    return "\n".join([str(drawn), *found.story[-_LINES:], f"VIOLATION: {violation}"])
