"""Statistics over seeds: confidence intervals, the paired test and Holm's adjustment.

Curves are accuracies (0 to 1) of S seeds in R evaluated rounds (0..T). Runs of two methods are
paired by seed: with the same seed, both have the same data and the same clients in each round.
Intervals and tests cover only the variation between seeds, that is, of initial models, cohorts and
batches. If the federation is fixed, they say nothing about other clients or data.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from fedkin.core.errors import ConfigError

LEAST_SEEDS = 3  # With two seeds, t has one degree of freedom, and intervals are uninformative.
LEVEL = 0.05
DECIMALS = 12  # Differences are rounded, so that rounding errors do not make them unequal.


@dataclass(frozen=True, eq=False)
class Band:
    """A mean curve and its interval, in the unit of the curves."""

    mean: Float[np.ndarray, "R"]
    low: Float[np.ndarray, "R"]
    high: Float[np.ndarray, "R"]


def interval(curves: Float[np.ndarray, "S R"], confidence: float = 0.95) -> Band:
    """Mean over seeds with Student's t interval. With one seed, the bounds are NaN.

    Raises:
        ConfigError: there is no seed, or the confidence is not between 0 and 1.
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

    With fewer than LEAST_SEEDS seeds, p is NaN. If all differences are 0, p is 1. Differences are
    rounded to 12 decimals. If all are equal and not 0, t is infinite, so p comes from the two-sided
    sign test instead: 2 * 0.5**S.

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
    """Holm's step-down adjustment of p for m comparisons along axis 0 (Scand. J. Statist. 6, 1979).

    NaN values stay NaN and do not count as comparisons.
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
    """The probability on each side of a two-sided interval. Raises ConfigError for an invalid
    confidence."""
    if not 0 < confidence < 1:
        raise ConfigError(f"the confidence must be between 0 and 1, such as 0.95, got {confidence}")
    return (1 - confidence) / 2
