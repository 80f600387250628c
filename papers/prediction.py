"""Where one more run would be, from the runs that there are (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

LEVEL = 0.05
LEAST_RUNS = 5  # for an interval


def prediction_interval(runs: Sequence[float]) -> tuple[float, float]:
    """Where one more run would be with a probability of 95%, if all were normal: mean +- t s
    sqrt(1 + 1/n); not above 100 unless a run is.

    Args:
        runs: at least two values, in percentage points.
    """
    from scipy.stats import t

    half = float(t.ppf(1 - LEVEL / 2, len(runs) - 1)) * _spread(runs)
    high = mean(runs) + half
    return mean(runs) - half, high if max(runs) > 100 else min(high, 100.0)


def p_value(printed: float, runs: Sequence[float]) -> float:
    """The probability that one more run is at least as far from the mean as a printed number.

    Args:
        printed: the paper's number.
        runs: at least two values, in the same unit.
    """
    from scipy.stats import t

    distance = abs(printed - mean(runs))
    spread = _spread(runs)
    if spread == 0:
        return float(distance == 0)
    return float(2 * t.sf(distance / spread, len(runs) - 1))


def _spread(runs: Sequence[float]) -> float:
    """The standard deviation of the difference between one more run and the mean."""
    return stdev(runs) * sqrt(1 + 1 / len(runs))
