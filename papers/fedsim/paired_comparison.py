"""The comparison of FedSim's paper, of a method with each of the others over seeds: mean
improvement, one-tailed tests of the mean over rounds and of each round, and a verdict. fedkin's own
comparisons are in ``fedkin.analysis.pairwise_tests``.

Curves are accuracies of S seeds at R scored rounds (0..T), from 0 to 1; differences are in
percentage points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.analysis.statistics import DECIMALS, LEVEL, holm, require_seed
from fedkin.core.errors import ConfigError, unknown
from papers.fedsim.paired_tests import bootstrap, paired_p

BETTER = "better"
WORSE = "worse"
NO_DIFFERENCE = "not significant"
TOO_FEW = "too few seeds"


@dataclass(frozen=True, eq=False)
class PairedComparison:
    """One method against another. With fewer than LEAST_SEEDS seeds interval and p are NaN.

    Attributes:
        seeds, rounds: S and R, the numbers that were compared.
        scored: the numbers of these rounds (columns of the curves). The first counts as round 0,
            whatever its number: only ``improvement`` includes it.
        improvement, improvement_deviation: see ``improvement``.
        difference: mean over seeds and rounds 1..T, percentage points.
        low, high: ``bootstrap`` over seeds of each seed's mean difference, percentage points.
        p_t, p_wilcoxon: of each seed's mean over rounds 1..T, one-tailed, Holm-adjusted over the
            comparisons made.
        p_rounds: t-test in each round, Holm-adjusted over the comparisons in it and not over
            rounds.
        significant, share_significant: p_rounds < LEVEL, and in which share of rounds 1..T it is.
        from_round: the number of the first round from which on all are significant; None if the
            last one is not.
        verdict: "better" (p_t < LEVEL), "worse" (the opposite one-tailed test; together they err in
            up to 2 LEVEL of cases), "not significant", or "too few seeds".
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


def improvement(
    ours: Float[np.ndarray, "S R"], theirs: Float[np.ndarray, "S R"]
) -> tuple[float, float]:
    """FedSim's "mean performance improvement" (section 4.3, Tables 4, 6 and 7) and the number
    behind its +-.

    Returns:
        100 / T times the sum of the difference of the mean curves over all T + 1 points, in
        percentage points (at point 0 both have the same untrained model, hence T); and the standard
        deviation of that difference across the T + 1
        points (population: divided by T + 1), not across seeds.

    Raises:
        ConfigError: fewer than two rounds, or no seed.
    """
    require_seed(ours)
    rounds = ours.shape[1]
    if rounds < 2:
        raise ConfigError(
            f"an improvement needs a first round and one after it, got {rounds}; score more rounds"
        )
    curve = 100 * np.round(
        ours.mean(axis=0, dtype=np.float64) - theirs.mean(axis=0, dtype=np.float64), DECIMALS
    )
    return float(curve.sum() / (rounds - 1)), float(curve.std())


def compare(
    curves: Mapping[str, Float[np.ndarray, "_ _"]], method: str, rng: np.random.Generator
) -> list[PairedComparison]:
    """Compare a method with each of the others, in the order of ``curves``.

    Args:
        curves: accuracies [S, R] by method, from 0 to 1. Rounds that are NaN in any of them are
            left out of all.
        method: this method is compared with the others.
        rng: draws the bootstrap's samples.

    Raises:
        ConfigError: no curves, an unknown method, curves of different shapes or that are not
            shares, or fewer than two rounds that all of them have.
    """
    scored = _scored(curves, method)
    complete = {name: np.asarray(curve[:, scored], np.float64) for name, curve in curves.items()}
    ours = complete[method]
    baselines = [name for name in complete if name != method]
    if not baselines:
        return []
    gains = [(ours - complete[name])[:, 1:].mean(axis=1) for name in baselines]
    points = 100 * np.round(np.stack(gains, axis=1), DECIMALS)  # [S, m]
    nothing = np.zeros_like(points)
    p_t = holm(paired_p(points, nothing))
    p_wilcoxon = holm(paired_p(points, nothing, "wilcoxon"))
    p_worse = holm(paired_p(nothing, points))
    p_rounds = holm(np.stack([paired_p(ours, complete[name]) for name in baselines]))
    comparisons = []
    for i, name in enumerate(baselines):
        gain, deviation = improvement(ours, complete[name])
        low, high = bootstrap(points[:, i], rng)
        share, since = _when(p_rounds[i], scored)
        comparisons.append(
            PairedComparison(
                method=method,
                against=name,
                seeds=len(ours),
                rounds=len(scored),
                scored=scored,
                improvement=gain,
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
            raise ConfigError(
                f"curves must have the same seeds and rounds: {have}; keep what both have"
            )
        wrong = curve[(curve < 0) | (curve > 1)]
        if wrong.size:
            raise ConfigError(
                f"accuracies are shares from 0 to 1, got {wrong[0]} in {name!r}; divide percent by "
                "100"
            )
    require_seed(curves[method])
    scored = np.flatnonzero(
        np.all([np.isfinite(curve).all(axis=0) for curve in curves.values()], axis=0)
    )
    if len(scored) < 2:
        raise ConfigError(
            f"expected at least two rounds that every curve has, got {len(scored)} of {shape[1]}"
        )
    return scored


def _when(p: Float[np.ndarray, "R"], scored: Int[np.ndarray, "R"]) -> tuple[float, int | None]:
    """The share of rounds 1..T that are significant, and the number of the first from which on all
    are."""
    if np.isnan(p).any():
        return math.nan, None
    significant = p[1:] < LEVEL
    since = len(significant) - int(np.logical_and.accumulate(significant[::-1]).sum())
    return float(significant.mean()), int(scored[1:][since]) if since < len(significant) else None


def verdict(better: float, worse: float) -> str:
    """The verdict from p of being better and p of being worse."""
    if math.isnan(better):
        return TOO_FEW
    if better < LEVEL:
        return BETTER
    return WORSE if worse < LEVEL else NO_DIFFERENCE
