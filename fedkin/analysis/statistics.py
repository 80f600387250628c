"""Statistics over seeds: confidence intervals, the paired test and Holm's adjustment.

Curves are accuracies of S seeds at R scored rounds (0..T), shares from 0 to 1. Seeds are pairs:
seed s of two methods saw the same data and cohorts. Results cover what varies between seeds: for a
fixed federation, these are initial models, cohorts and batches.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from fedkin.core.errors import ConfigError

LEAST_SEEDS = 3  # With two seeds, t has one degree of freedom, which is uninformative.
LEVEL = 0.05
DECIMALS = 12  # Smaller differences are rounding: equal differences must be equal.


@dataclass(frozen=True, eq=False)
class Band:
    """A mean curve and its interval, in the unit of the curves."""

    mean: Float[np.ndarray, "R"]
    low: Float[np.ndarray, "R"]
    high: Float[np.ndarray, "R"]


def interval(curves: Float[np.ndarray, "S R"], confidence: float = 0.95) -> Band:
    """Mean over seeds with Student's t interval, whose ends are NaN with one seed.

    Raises:
        ConfigError: no seed, or a confidence that is not between 0 and 1.
    """
    seeds = require_seed(curves)
    mean = curves.mean(axis=0, dtype=np.float64)
    if seeds == 1:
        return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    error = curves.std(axis=0, ddof=1, dtype=np.float64) / math.sqrt(seeds)
    half = stats.t.ppf(1 - tail(confidence), seeds - 1) * error
    return Band(mean, mean - half, mean + half)


def paired_p(ours: Float[np.ndarray, "S"], theirs: Float[np.ndarray, "S"]) -> float:
    """p of the two-sided paired t-test over seeds, used for all comparisons of methods.

    With fewer than LEAST_SEEDS seeds, p is NaN. If no seed differs, p is 1, because that is no
    evidence. Differences are rounded to 12 decimals. If all are equal and nonzero, t is infinite,
    and p is that of the two-sided sign test, 2 * 0.5**S.

    Args:
        ours: values of one method, one per seed.
        theirs: values of the other method, for the same seeds.
    """
    difference = np.round(np.subtract(ours, theirs, dtype=np.float64), DECIMALS)
    if len(difference) < LEAST_SEEDS:
        return math.nan
    if np.ptp(difference) == 0:
        return 2 * 0.5 ** len(difference) if difference[0] else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # values are nearly equal
        return float(np.asarray(stats.ttest_1samp(difference, 0.0))[1])


def holm(p: Float[np.ndarray, "m ..."]) -> Float[np.ndarray, "m ..."]:
    """Holm's step-down adjustment of p for m comparisons, axis 0 (Scand. J. Statist. 6, 1979).

    NaN stay NaN and do not count as comparisons.
    """
    order = np.argsort(p, axis=0)  # NaN sorts last
    rank = np.arange(len(p)).reshape(-1, *[1] * (p.ndim - 1))
    factor = np.sum(~np.isnan(p), axis=0) - rank
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, axis=0) * factor, axis=0)
    adjusted = np.empty_like(stepped)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis=0)
    return adjusted


def require_seed(curves: Float[np.ndarray, "S R"]) -> int:
    """The number of seeds. Raises ConfigError if there is none."""
    if len(curves):
        return len(curves)
    raise ConfigError("expected curves [seeds, rounds] of at least one seed, got none")


def tail(confidence: float) -> float:
    """The probability below a two-sided interval. Raises ConfigError for an invalid confidence."""
    if not 0 < confidence < 1:
        raise ConfigError(f"a confidence lies between 0 and 1 (0.95 is usual), got {confidence}")
    return (1 - confidence) / 2
