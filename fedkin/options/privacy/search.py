"""Searches by bisection whose steps may take seconds each: one that takes long says how far it has
come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

PRECISION = 1e-3  # a search ends where the interval is this share of its upper end
_QUIET = 5.0  # seconds between two lines of the log

_log = logging.getLogger("fedkin")


class Search:
    """A search for the smallest noise, or the largest number of rounds, that a budget allows."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Start a search.

        Args:
            name: what is searched, for the log.
            clock: seconds.
        """
        self._name = name
        self._clock = clock
        self._start = clock()
        self._logged = self._start

    def bracket(self, enough: Callable[[float], bool], first: float) -> tuple[float, float]:
        """An interval whose lower end is not enough, or 0, and whose upper end is enough.

        Args:
            enough: whether a value is enough; so is every larger one.
            first: the value that is tried first; then it is doubled.
        """
        low = 0.0
        high = first
        while not enough(high):
            low = high
            high = 2 * high
            self._progress(f"more than {low:.4g}")
        return low, high

    def least(
        self, enough: Callable[[float], bool], low: float, high: float, nearest: float = 0.0
    ) -> float:
        """The smallest value that is enough, to 0.1%.

        Args:
            enough: whether a value is enough; so is every larger one.
            low: a value that is not enough.
            high: a value that is enough.
            nearest: no value below this share of ``high`` is tried; for a ``high`` that is nearly
                right.
        """
        while high - low > high * PRECISION:
            middle = max((low + high) / 2, high * nearest)
            if enough(middle):
                high = middle
            else:
                low = middle
            self._progress(f"between {low:.4g} and {high:.4g}")
        return high

    def most(self, allowed: Callable[[int], bool], limit: int) -> int:
        """The largest count that is allowed, from 0 to ``limit``.

        Args:
            allowed: whether a count is allowed; so is every smaller one.
            limit: the count that is tried first.
        """
        low = 0
        high = limit + 1
        while high - low > 1:
            middle = limit if high > limit else (low + high) // 2
            if allowed(middle):
                low = middle
            else:
                high = middle
            self._progress(f"between {low:,} and {high - 1:,}")
        return low

    def _progress(self, interval: str) -> None:
        """Log the interval, unless the last line is new."""
        now = self._clock()
        if now - self._logged < _QUIET:
            return
        self._logged = now
        _log.warning("%s: %s after %.0f s", self._name, interval, now - self._start)
