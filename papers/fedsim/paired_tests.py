"""The tests by which FedSim's paper compares: one-tailed, paired by seed; its way of printing; a
bootstrap over seeds.

fedkin itself compares methods by one two-sided test (``fedkin.analysis.statistics.paired_p``).
"""

from __future__ import annotations

import math
import warnings
from decimal import ROUND_DOWN, Decimal
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from fedkin.analysis.statistics import DECIMALS, LEAST_SEEDS, tail
from fedkin.core.errors import ConfigError


def paired_p(
    ours: Float[np.ndarray, "S ..."],
    theirs: Float[np.ndarray, "S ..."],
    test: Literal["t", "wilcoxon"] = "t",
) -> Float[np.ndarray, "..."]:
    """p of the one-tailed paired test over seeds (axis 0) that ours is greater, for each of the
    other axes.

    Fewer than LEAST_SEEDS: NaN. No difference in any seed: 1, for that is no evidence. Differences
    are rounded to 12 decimals. Where all are equal and not zero, t is infinite, and p the sign
    test's: 0.5**S if ours is greater, else 1.

    Wilcoxon's signed-rank test ranks seeds without a difference with the others (Pratt's
    ``zero_method``): to drop them first would be to forget evidence that there is no difference,
    and SciPy's normal approximation allows for them. Its p is exact up to 50 seeds without ties or
    zeros and up to 13 with them, else that approximation. The least it can be is 0.5**S, so that
    fewer than five seeds never get below 0.05.

    Args:
        ours: numbers of one method, a row per seed.
        theirs: those of the other, from the same seeds.
        test: Student's t-test, or Wilcoxon's signed-rank test.
    """
    difference = np.round(np.subtract(ours, theirs, dtype=np.float64), DECIMALS)
    if len(difference) < LEAST_SEEDS:
        return np.full(difference.shape[1:], np.nan)
    return np.asarray(np.apply_along_axis({"t": _t, "wilcoxon": _wilcoxon}[test], 0, difference))


def as_printed(value: float | int, digits: int = 2) -> str:
    """A number as FedSim's tables print it: truncated, not rounded (11.999 is 11.99)."""
    if not math.isfinite(value):
        return str(value)
    # A sum that ought to be 2.30 may be a hair less.
    exact = Decimal(repr(round(float(value), DECIMALS - 2)))
    return str(exact.quantize(Decimal(1).scaleb(-digits), ROUND_DOWN) + 0)


def bootstrap(
    differences: Float[np.ndarray, "S"],
    rng: np.random.Generator,
    confidence: float = 0.95,
    draws: int = 10_000,
) -> tuple[float, float]:
    """Bootstrap interval of the mean over seeds; NaN with fewer than LEAST_SEEDS.

    The percentile interval, its tails widened as a t interval's are (the expanded percentile
    interval, Hesterberg, Amer. Statist. 69, 2015): the plain one is too narrow for few seeds, and
    BCa is no better there, because it estimates a skewness from as few. Of normal differences,
    plain, BCa and expanded 95% intervals covered 84, 83 and 91% (5 seeds), 90, 89 and 94% (10). No
    mean of drawn seeds lies outside them: 3 seeds cover 75% at best, 4 87.5%.

    Args:
        differences: one per seed.
        rng: draws the samples.
        confidence: the coverage of the interval.
        draws: how many samples of seeds.

    Raises:
        ConfigError: fewer than one draw, or a confidence that is not between 0 and 1.
    """
    seeds = len(differences)
    end = tail(confidence)
    if draws < 1:
        raise ConfigError(f"a bootstrap needs at least one draw, got {draws}")
    if seeds < LEAST_SEEDS:
        return math.nan, math.nan
    wide = stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * stats.t.ppf(end, seeds - 1))
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
    return float(
        np.asarray(stats.wilcoxon(difference, zero_method="pratt", alternative="greater"))[1]
    )
