"""Bisection searches in which each evaluation may take seconds (e.g. the epsilon of a noise). A
search that takes long logs its progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

PRECISION = 1e-3  # a search ends when the interval is at most this share of its upper end
_QUIET = 5.0  # least seconds between two log lines

_log = logging.getLogger("fedkin")


class Search:
    """A search for the smallest noise, or the largest number of rounds, that a budget allows."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Start a search.

        Args:
            name: name of the searched quantity, for the log.
            clock: returns the time in seconds.
        """
        self._name = name
        self._clock = clock
        self._start = clock()
        self._logged = self._start

    def bracket(self, enough: Callable[[float], bool], first: float) -> tuple[float, float]:
        """An interval that contains the smallest value that is enough: its lower end is 0 or not
        enough, its upper end is enough.

        Args:
            enough: whether a value is large enough, such as a noise that keeps epsilon within the
                budget. If so, every larger value must be enough too.
            first: the first value tried; it is doubled until it is enough.
        """
        low = 0.0
        high = first
        while not enough(high):
            low = high
            high = 2 * high
            self._progress(f"above {low:.4g}")
        return low, high

    def least(
        self, enough: Callable[[float], bool], low: float, high: float, nearest: float = 0.0
    ) -> float:
        """The smallest value that is enough, to 0.1%.

        Args:
            enough: whether a value is large enough, such as a noise that keeps epsilon within the
                budget. If so, every larger value must be enough too.
            low: a lower limit of the result; it is not tried.
            high: a value that is enough.
            nearest: no step tries a value below this share of the current ``high``. Set it (e.g. to
                0.9) if the result is probably just below ``high``, so that the search does not try
                the middle of the interval first. 0: plain bisection.
        """
        while high - low > high * PRECISION:
            # A result just below ``high`` is found sooner from there than from the middle.
            middle = max((low + high) / 2, high * nearest)
            if enough(middle):
                high = middle
            else:
                low = middle
            self._progress(f"between {low:.4g} and {high:.4g}")
        return high

    def most(self, allowed: Callable[[int], bool], limit: int) -> int:
        """The largest number that is allowed, from 0 to ``limit``.

        Args:
            allowed: whether a number is allowed, such as a number of rounds within the budget. If
                so, every smaller number must be allowed too.
            limit: largest number, which is tried first.
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
        """Log how far a search has come, unless a line was logged recently.

        Args:
            interval: the interval that still contains the result, as text.
        """
        now = self._clock()
        if now - self._logged < _QUIET:
            return
        self._logged = now
        _log.warning("%s: searching %s, %.0f s so far", self._name, interval, now - self._start)
