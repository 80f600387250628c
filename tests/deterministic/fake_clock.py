"""A clock that moves only when a process sleeps, with the events of a world in between."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any


class StuckError(AssertionError):
    """Nothing has come of waiting."""


class FakeClock:
    """Seconds of fake time. ``wall`` is the time of day, which may be set; ``time`` never goes
    back.

    Args:
        limit: seconds at which a run counts as stuck.
    """

    def __init__(self, limit: float) -> None:
        self.now = 0.0
        self.limit = limit
        self.wall_offset = 1e9
        self.frozen = 0.0  # seconds for which the server's process was stopped, in all
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._numbers = count()
        self._longer = 0.0

    def time(self) -> float:
        """Seconds since the start."""
        return self.now

    def wall(self) -> float:
        """Seconds of the time of day."""
        return self.now + self.wall_offset

    def at(self, when: float, action: Callable[[], Any]) -> None:
        """Plan an event; of equal times the first planned comes first."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), action))

    def freeze(self, seconds: float) -> None:
        """Let whoever sleeps now sleep longer, as a process that was stopped does."""
        self._longer += seconds
        self.frozen += seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            when, _, action = heapq.heappop(self._events)
            self.now = max(self.now, when)
            action()
            end = end + self._longer
            self._longer = 0.0
        self.now = max(self.now, end)  # an event may have slept longer itself
        if self.now > self.limit:
            raise StuckError(f"no end after {self.limit:.0f} s")
