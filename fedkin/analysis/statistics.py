"""What runs over several seeds show: intervals, paired tests, and a method against each of the others.

Curves are accuracies of S seeds at R scored rounds (0..T), shares from 0 to 1. Seeds are pairs: seed s of two methods
saw the same data and cohorts. Differences are in percentage points and speak for what varies from seed to seed: where
all have one federation, for initial models, cohorts and batches on that one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import stats

from fedkin.core.errors import ConfigError, unknown

LEAST_SEEDS = 3  # Two seeds always give some t with one degree of freedom, and it says nothing.
LEVEL = 0.05
BETTER, WORSE, NO_DIFFERENCE, TOO_FEW = "better", "worse", "no difference shown", "too few seeds to tell"
_DECIMALS = 12  # What is smaller is rounding: equal differences must be equal, or ranks and zeros go wrong.
_COLUMNS = (
    *("method", "against", "seeds", "rounds", "improvement", "improvement_deviation", "difference", "low", "high"),
    *("p_t", "p_wilcoxon", "share_significant", "from_round", "verdict"),
)


@dataclass(frozen=True, eq=False)
class Band:
    """A mean curve and the interval around it, in the unit of the curves."""

    mean: Float[np.ndarray, "R"]
    low: Float[np.ndarray, "R"]
    high: Float[np.ndarray, "R"]


@dataclass(frozen=True, eq=False)
class PairedComparison:
    """One method against another. Fewer than LEAST_SEEDS seeds claim nothing: interval and p are NaN.

    Attributes:
        seeds, rounds: S and R, how many were compared.
        scored: the numbers of these rounds (columns of the curves). The first counts as round 0, whatever its number:
            it is in ``improvement`` and in nothing else.
        improvement, improvement_deviation: see ``improvement``.
        difference: mean over seeds and rounds 1..T, percentage points.
        low, high: ``bootstrap`` over seeds of each seed's mean difference, percentage points.
        p_t, p_wilcoxon: of each seed's mean over rounds 1..T, one-tailed, Holm-adjusted over the comparisons made.
        p_rounds: t-test in each round, Holm-adjusted over the comparisons in it and not over rounds.
        significant, share_significant: p_rounds < LEVEL, and in which share of rounds 1..T it is.
        from_round: the number of the first round from which on all are significant; None if the last one is not.
        verdict: "better" (p_t < LEVEL), "worse" (the same test the other way round: together they err in up to 2 LEVEL
            of cases), "no difference shown", or "too few seeds to tell".
    """

    method: str
    against: str
    seeds: int
    rounds: int
    scored: Int[np.ndarray, "R"]
    improvement: float
    improvement_deviation: float
    difference: float
    low: float
    high: float
    p_t: float
    p_wilcoxon: float
    p_rounds: Float[np.ndarray, "R"]
    significant: Bool[np.ndarray, "R"]
    share_significant: float
    from_round: int | None
    verdict: str


def interval(curves: Float[np.ndarray, "S R"], confidence: float = 0.95) -> Band:
    """Mean over seeds with Student's t interval. With one seed its ends are NaN.

    Raises:
        ConfigError: no seed at all, or a confidence that is not between 0 and 1.
    """
    seeds = _at_least_one_seed(curves)
    mean = curves.mean(axis=0, dtype=np.float64)
    if seeds == 1:
        return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    error = curves.std(axis=0, ddof=1, dtype=np.float64) / math.sqrt(seeds)
    half = stats.t.ppf(1 - _tail(confidence), seeds - 1) * error
    return Band(mean, mean - half, mean + half)


def paired_p(
    ours: Float[np.ndarray, "S ..."], theirs: Float[np.ndarray, "S ..."], test: Literal["t", "wilcoxon"] = "t"
) -> Float[np.ndarray, "..."]:
    """p of the one-tailed paired test over seeds (axis 0) that ours is greater, each of the others on its own.

    Fewer than LEAST_SEEDS: NaN. No difference in any seed: 1, for that is no evidence. Differences are rounded to 12
    decimals. Where all are equal and not zero, t is infinite, and p the sign test's: 0.5**S if ours is greater, else 1.

    Wilcoxon's signed-rank test ranks seeds without a difference with the others (Pratt's ``zero_method``): to drop
    them first would be to forget evidence that there is no difference, and SciPy's normal approximation allows for
    them. Its p is exact up to 50 seeds without ties or zeros and up to 13 with them, else that approximation. The least
    it can be is 0.5**S, so that fewer than five seeds never get below 0.05.
    """
    difference = np.round(np.subtract(ours, theirs, dtype=np.float64), _DECIMALS)
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


def improvement(ours: Float[np.ndarray, "S R"], theirs: Float[np.ndarray, "S R"]) -> tuple[float, float]:
    """FedSim's "mean performance improvement" (section 4.3, Tables 4, 6 and 7) and the number behind its +-.

    Returns:
        100 / T times the sum of the difference of the mean curves over all T + 1 points, in percentage points (at point
        0 both have the same untrained model, hence T); and the standard deviation of that difference across the T + 1
        points (population: divided by T + 1), not across seeds.

    Raises:
        ConfigError: fewer than two rounds, or no seed.
    """
    _at_least_one_seed(ours)
    rounds = ours.shape[1]
    if rounds < 2:
        raise ConfigError(f"an improvement needs a first round and one after it, got {rounds}; score more rounds")
    curve = 100 * np.round(ours.mean(axis=0, dtype=np.float64) - theirs.mean(axis=0, dtype=np.float64), _DECIMALS)
    return float(curve.sum() / (rounds - 1)), float(curve.std())


def as_printed(value: float | int, digits: int = 2) -> str:
    """A number as FedSim's tables print it: cut off, not rounded (11.999 is 11.99)."""
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(repr(round(float(value), _DECIMALS - 2)))  # a sum that ought to be 2.30 may be a hair less
    return str(exact.quantize(Decimal(1).scaleb(-digits), ROUND_DOWN) + 0)


def bootstrap(
    differences: Float[np.ndarray, "S"], rng: np.random.Generator, confidence: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Bootstrap interval of the mean over seeds; NaN with fewer than LEAST_SEEDS.

    The percentile interval, its tails widened as a t interval's are (the expanded percentile interval, Hesterberg,
    Amer. Statist. 69, 2015): the plain one is too narrow for few seeds, and BCa is no better there, because it
    estimates a skewness from as few. Of normal differences, plain, BCa and expanded 95% intervals covered 84, 83 and
    91% (5 seeds), 90, 89 and 94% (10). No mean of drawn seeds lies outside them: 3 seeds cover 75% at best, 4 87.5%.

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


def compare(
    curves: Mapping[str, Float[np.ndarray, "_ _"]], method: str, rng: np.random.Generator
) -> list[PairedComparison]:
    """Compare a method with each of the others, in the order of ``curves``.

    Args:
        curves: accuracies [S, R] by method, from 0 to 1. Rounds that are NaN in any of them are left out of all.
        method: the one that is compared with the others.
        rng: draws the bootstrap's samples.

    Raises:
        ConfigError: no curves, an unknown method, curves of different shapes or that are not shares, or fewer than two
            rounds that all of them have.
    """
    scored = _scored(curves, method)
    kept = {name: np.asarray(curve[:, scored], np.float64) for name, curve in curves.items()}
    ours, others = kept[method], [name for name in kept if name != method]
    if not others:
        return []
    gains = [(ours - kept[name])[:, 1:].mean(axis=1) for name in others]
    points = 100 * np.round(np.stack(gains, axis=1), _DECIMALS)  # [S, m]
    nothing = np.zeros_like(points)
    p_t, p_wilcoxon = holm(paired_p(points, nothing)), holm(paired_p(points, nothing, "wilcoxon"))
    p_worse = holm(paired_p(nothing, points))
    p_rounds = holm(np.stack([paired_p(ours, kept[name]) for name in others]))
    comparisons = []
    for i, name in enumerate(others):
        raised, deviation = improvement(ours, kept[name])
        low, high = bootstrap(points[:, i], rng)
        share, since = _when(p_rounds[i], scored)
        comparisons.append(
            PairedComparison(
                method=method,
                against=name,
                seeds=len(ours),
                rounds=len(scored),
                scored=scored,
                improvement=raised,
                improvement_deviation=deviation,
                difference=float(points[:, i].mean()),
                low=low,
                high=high,
                p_t=float(p_t[i]),
                p_wilcoxon=float(p_wilcoxon[i]),
                p_rounds=p_rounds[i],
                significant=p_rounds[i] < LEVEL,
                share_significant=share,
                from_round=since,
                verdict=verdict(float(p_t[i]), float(p_worse[i])),
            )
        )
    return comparisons


def table(comparisons: Iterable[PairedComparison]) -> pd.DataFrame:
    """One row per comparison, what is a curve left out; percentage points. None where nothing can be said."""
    made = list(comparisons)
    return pd.DataFrame({name: _column([getattr(each, name) for each in made]) for name in _COLUMNS})


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


def _at_least_one_seed(curves: Float[np.ndarray, "S R"]) -> int:
    if len(curves):
        return len(curves)
    raise ConfigError("expected curves [seeds, rounds] of at least one seed, got none")


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ConfigError(f"a confidence lies between 0 and 1 (0.95 is usual), got {confidence}")
    return (1 - confidence) / 2


def _scored(curves: Mapping[str, Float[np.ndarray, "_ _"]], method: str) -> Int[np.ndarray, "R"]:
    """The rounds in which every curve has a number."""
    if not curves:
        raise ConfigError("expected the curves of at least one method, got none")
    if method not in curves:
        raise ConfigError(unknown("method", method, curves))
    shape = curves[method].shape
    for name, curve in curves.items():
        if curve.shape != shape:
            have = f"{method!r} has {shape}, {name!r} {curve.shape}"
            raise ConfigError(f"curves must have the same seeds and rounds: {have}; keep what both have")
        wrong = curve[(curve < 0) | (curve > 1)]
        if wrong.size:
            raise ConfigError(f"accuracies are shares from 0 to 1, got {wrong[0]} in {name!r}; divide percent by 100")
    _at_least_one_seed(curves[method])
    scored = np.flatnonzero(np.all([np.isfinite(curve).all(axis=0) for curve in curves.values()], axis=0))
    if len(scored) < 2:
        raise ConfigError(f"expected at least two rounds that every curve has, got {len(scored)} of {shape[1]}")
    return scored


def _when(p: Float[np.ndarray, "R"], scored: Int[np.ndarray, "R"]) -> tuple[float, int | None]:
    """The share of rounds 1..T that are significant, and the number of the first from which on all are."""
    if np.isnan(p).any():
        return math.nan, None
    significant = p[1:] < LEVEL
    since = len(significant) - int(np.logical_and.accumulate(significant[::-1]).sum())
    return float(significant.mean()), int(scored[1:][since]) if since < len(significant) else None


def verdict(better: float, worse: float) -> str:
    """What p of being better, and p of being worse, say."""
    return TOO_FEW if math.isnan(better) else BETTER if better < LEVEL else WORSE if worse < LEVEL else NO_DIFFERENCE


def _column(cells: list[Any]) -> pd.Series:
    """NaN becomes None, None stays None beside numbers, and a round beside None stays an integer."""
    known = [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]
    return pd.Series(known, dtype=object if None in known or not known else None)
