"""Statistics over seeds: confidence intervals, paired tests, Holm's adjustment and the bootstrap.

Curves are accuracies of S seeds at R scored rounds (0..T), shares from 0 to 1. Seeds are pairs: seed s of two methods
saw the same data and cohorts. Results are about what varies from seed to seed: where all have one federation, initial
models, cohorts and batches on that one.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from fedkin.core.errors import ConfigError

LEAST_SEEDS = 3  # Two seeds give a t with one degree of freedom, which says nothing.
LEVEL = 0.05
DECIMALS = 12  # What is smaller is rounding: equal differences must be equal, or ranks and zeros go wrong.


@dataclass(frozen=True, eq=False)
class Band:
    """A mean curve and the interval around it, in the unit of the curves."""

    mean: Float[np.ndarray, "R"]
    low: Float[np.ndarray, "R"]
    high: Float[np.ndarray, "R"]


def interval(curves: Float[np.ndarray, "S R"], confidence: float = 0.95) -> Band:
    """Mean over seeds with Student's t interval. With one seed its ends are NaN.

    Raises:
        ConfigError: no seed at all, or a confidence that is not between 0 and 1.
    """
    seeds = require_seed(curves)
    mean = curves.mean(axis=0, dtype=np.float64)
    if seeds == 1:
        return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    error = curves.std(axis=0, ddof=1, dtype=np.float64) / math.sqrt(seeds)
    half = stats.t.ppf(1 - _tail(confidence), seeds - 1) * error
    return Band(mean, mean - half, mean + half)


def paired_p(
    ours: Float[np.ndarray, "S ..."], theirs: Float[np.ndarray, "S ..."], test: Literal["t", "wilcoxon"] = "t"
) -> Float[np.ndarray, "..."]:
    """p of the one-tailed paired test over seeds (axis 0) that ours is greater, for each of the other axes.

    Fewer than LEAST_SEEDS: NaN. No difference in any seed: 1, for that is no evidence. Differences are rounded to 12
    decimals. Where all are equal and not zero, t is infinite, and p the sign test's: 0.5**S if ours is greater, else 1.

    Wilcoxon's signed-rank test ranks seeds without a difference with the others (Pratt's ``zero_method``): to drop
    them first would be to forget evidence that there is no difference, and SciPy's normal approximation allows for
    them. Its p is exact up to 50 seeds without ties or zeros and up to 13 with them, else that approximation. The least
    it can be is 0.5**S, so that fewer than five seeds never get below 0.05.

    Args:
        ours: numbers of one method, a row per seed.
        theirs: those of the other, from the same seeds.
        test: Student's t-test, or Wilcoxon's signed-rank test.
    """
    difference = np.round(np.subtract(ours, theirs, dtype=np.float64), DECIMALS)
    if len(difference) < LEAST_SEEDS:
        return np.full(difference.shape[1:], np.nan)
    return np.asarray(np.apply_along_axis({"t": _t, "wilcoxon": _wilcoxon}[test], 0, difference))


def holm(p: Float[np.ndarray, "m ..."]) -> Float[np.ndarray, "m ..."]:
    """p adjusted for m comparisons (axis 0) by Holm's step-down procedure (Scand. J. Statist. 6, 1979).

    NaN stay NaN and do not count as comparisons.
    """
    order = np.argsort(p, axis=0)  # NaN come last
    rank = np.arange(len(p)).reshape(-1, *[1] * (p.ndim - 1))
    factor = np.sum(~np.isnan(p), axis=0) - rank
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, axis=0) * factor, axis=0)
    adjusted = np.empty_like(stepped)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis=0)
    return adjusted


def as_printed(value: float | int, digits: int = 2) -> str:
    """A number as FedSim's tables print it: truncated, not rounded (11.999 is 11.99)."""
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(repr(round(float(value), DECIMALS - 2)))  # a sum that ought to be 2.30 may be a hair less
    return str(exact.quantize(Decimal(1).scaleb(-digits), ROUND_DOWN) + 0)


def bootstrap(
    differences: Float[np.ndarray, "S"], rng: np.random.Generator, confidence: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Bootstrap interval of the mean over seeds; NaN with fewer than LEAST_SEEDS.

    The percentile interval, its tails widened as a t interval's are (the expanded percentile interval, Hesterberg,
    Amer. Statist. 69, 2015): the plain one is too narrow for few seeds, and BCa is no better there, because it
    estimates a skewness from as few. Of normal differences, plain, BCa and expanded 95% intervals covered 84, 83 and
    91% (5 seeds), 90, 89 and 94% (10). No mean of drawn seeds lies outside them: 3 seeds cover 75% at best, 4 87.5%.

    Args:
        differences: one per seed.
        rng: draws the samples.
        confidence: the coverage of the interval.
        draws: how many samples of seeds.

    Raises:
        ConfigError: fewer than one draw, or a confidence that is not between 0 and 1.
    """
    seeds, tail = len(differences), _tail(confidence)
    if draws < 1:
        raise ConfigError(f"a bootstrap needs at least one draw, got {draws}")
    if seeds < LEAST_SEEDS:
        return math.nan, math.nan
    wide = stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * stats.t.ppf(tail, seeds - 1))
    means = differences[rng.integers(seeds, size=(draws, seeds))].mean(axis=1, dtype=np.float64)
    low, high = np.quantile(means, [wide, 1 - wide])
    return float(low), float(high)


def _t(difference: Float[np.ndarray, "S"]) -> float:
    if np.ptp(difference) == 0:
        return 0.5 ** len(difference) if difference[0] > 0 else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that they are nearly equal
        return float(np.asarray(stats.ttest_1samp(difference, 0.0, alternative="greater"))[1])


def _wilcoxon(difference: Float[np.ndarray, "S"]) -> float:
    if not difference.any():
        return 1.0
    return float(np.asarray(stats.wilcoxon(difference, zero_method="pratt", alternative="greater"))[1])


def require_seed(curves: Float[np.ndarray, "S R"]) -> int:
    """The number of seeds; ConfigError where there is none."""
    if len(curves):
        return len(curves)
    raise ConfigError("expected curves [seeds, rounds] of at least one seed, got none")


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ConfigError(f"a confidence lies between 0 and 1 (0.95 is usual), got {confidence}")
    return (1 - confidence) / 2
