"""How much each swept option mattered, by method.

* ``share``: eta squared, the share of an option in the variance of the scores by one-way analysis
  of variance: the sum of squares between the option's values / total sum of squares (Fisher,
  Statistical Methods for Research Workers, 1925). A number that was drawn at random is divided into
  its lowest, middle and highest third, so that an optimum in the middle counts.
* ``by_chance``: the share that an option without any effect has on average,
  (groups - 1) / (scores - 1).
* ``rho``: for drawn numbers, Spearman's rank correlation of the value and the score (Am. J.
  Psychol. 15, 1904), with a 95% percentile interval by bootstrap over trials (Efron, Ann. Statist.
  7, 1979). It is positive if larger values have better scores.

Each run of a grid is a score, and the seed is an option like the others. In a random search a score
is a trial, as mean over its seeds and problems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import stats

from fedkin.analysis.compare.sweep import Results, has_validation, is_tuned_key, tuned_keys

LEAST_TRIALS = 10  # of a random search
LEAST_RUNS = 2  # of a grid, for each value of an option
RESAMPLES = 2000
GROUPS = 3  # groups of a drawn number
SEED = "seed"


class OptionImportance(NamedTuple):
    """A row of the table: how much an option mattered for a method.

    Attributes:
        method: label of the method, without values of the grid.
        key: the option, or ``seed``.
        scores: number of scores.
        groups: number of values, or of groups of values.
        share, by_chance: share of variance, and its mean without an effect; NaN with too few
            scores.
        rho, low, high: rank correlation and its interval; NaN unless the option is a drawn number.
        note: the reason why there are no numbers; empty if there are.
    """

    method: str
    key: str
    scores: int
    groups: int
    share: float = math.nan
    by_chance: float = math.nan
    rho: float = math.nan
    low: float = math.nan
    high: float = math.nan
    note: str = ""


class _Score(NamedTuple):
    """The score of a run, where higher is better, with its method, swept values and seed."""

    method: str
    values: dict[str, Any]
    score: float


def importance(comparison: Results, measure: str | None = None) -> pd.DataFrame:
    """How much each swept option mattered, by method. The table is empty if no option was tuned.

    Args:
        comparison: the comparison.
        measure: the measure without validation samples; None: the comparison's measure.

    Raises ConfigError for an unknown measure.
    """
    rows: list[OptionImportance] = []
    if tuned_keys(comparison):
        scores = _scores(comparison, measure)
        for method in dict.fromkeys(variant.method for variant in comparison.grid.methods):
            of_method = [one for one in scores if one.method == method]
            searched = comparison.grid.trials is not None
            rows += _of_search(of_method, method) if searched else _of_grid(of_method, method)
    return pd.DataFrame(rows, columns=list(OptionImportance._fields))


def score_word(comparison: Results, measure: str | None = None) -> str:
    """The word of the measure by which importance is computed: ``validation`` if there are such
    samples, otherwise the compared measure."""
    return "validation" if has_validation(comparison) else comparison.measure(measure).by


def share_of_variance(scores: Float[np.ndarray, "n"], groups: Int[np.ndarray, "n"]) -> float:
    """Eta squared of one-way analysis of variance; 0 if all scores are equal.

    Args:
        scores: the scores.
        groups: the group of each score, 0, 1, ...
    """
    centred = scores - scores.mean()
    total = float(centred @ centred)
    if math.isclose(total, 0.0, abs_tol=1e-18):
        return 0.0
    between = sum(
        (groups == group).sum() * centred[groups == group].mean() ** 2
        for group in np.unique(groups)
    )
    return float(between) / total


def rank_correlation(
    values: Float[np.ndarray, "n"], scores: Float[np.ndarray, "n"]
) -> tuple[float, float, float]:
    """Spearman's rho with its 95% percentile interval by bootstrap, from a constant seed. NaN if
    all values or all scores are equal.

    Args:
        values: the values of an option.
        scores: their scores.
    """
    rng = np.random.default_rng(0)
    picks = rng.integers(len(values), size=(RESAMPLES, len(values)))
    resampled = _spearman(values[picks], scores[picks])
    known = resampled[np.isfinite(resampled)]
    rho = float(_spearman(values[None], scores[None])[0])
    if not len(known) or not math.isfinite(rho):
        return math.nan, math.nan, math.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return rho, float(low), float(high)


def _spearman(
    values: Float[np.ndarray, "b n"], scores: Float[np.ndarray, "b n"]
) -> Float[np.ndarray, "b"]:
    """Spearman's rho of each row: the correlation of ranks, where equal values share their mean
    rank. NaN if all values or all scores of a row are equal."""
    ranks = stats.rankdata(values, axis=1)
    others = stats.rankdata(scores, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    others -= others.mean(axis=1, keepdims=True)
    scale = np.sqrt((ranks**2).sum(axis=1) * (others**2).sum(axis=1))
    defined = scale > 0
    products = (ranks * others).sum(axis=1)
    return np.where(defined, products / np.where(defined, scale, 1), np.nan)


def _scores(comparison: Results, measure: str | None) -> list[_Score]:
    """The score of each run; NaN for a run without one."""
    word = score_word(comparison, measure)
    sign = comparison.measure(word).sign
    found = []
    for setting, variant in comparison.grid.cells:
        scores = comparison.scores(setting.label, word)[variant.label]
        values = setting.swept(variant)
        for seed, score in zip(comparison.seeds, scores, strict=True):
            found.append(_Score(variant.method, {**values, SEED: seed}, float(sign * score)))
    return found


def _of_grid(scores: Sequence[_Score], method: str) -> list[OptionImportance]:
    """The rows of a method of a grid: each option with several values, and the seed."""
    rows = []
    scores = [one for one in scores if math.isfinite(one.score)]
    for key in _keys(scores):
        known = [one for one in scores if key in one.values]
        groups = _codes([one.values[key] for one in known])
        count = len(np.unique(groups))
        if count < 2:
            continue  # the method has one value of the option, or there is one seed
        smallest = int(np.bincount(groups).min())
        if smallest < LEAST_RUNS:
            few = f"too few runs: a value has {smallest}, at least {LEAST_RUNS} are needed"
            rows.append(OptionImportance(method, key, len(known), count, note=few))
            continue
        rows.append(_row(method, key, np.array([one.score for one in known]), groups))
    return rows


def _of_search(scores: Sequence[_Score], method: str) -> list[OptionImportance]:
    """The rows of a method of a random search: each drawn option. Only trials count that have a
    score for each problem and seed, because the mean of the others would be biased."""
    rows = []
    of_trials: dict[int, list[_Score]] = {}
    for one in scores:
        of_trials.setdefault(one.values["trial"], []).append(one)
    trials = {
        number: trial
        for number, trial in of_trials.items()
        if all(math.isfinite(one.score) for one in trial)
    }
    means = np.array([np.mean([one.score for one in trial]) for trial in trials.values()])
    count = len(trials)
    for key in _keys(scores):
        if not is_tuned_key(key) or key == SEED:
            continue
        values = [trial[0].values[key] for trial in trials.values()]
        groups = _codes(values)
        if count < LEAST_TRIALS:
            few = f"too few trials: {count}, at least {LEAST_TRIALS} are needed"
            rows.append(OptionImportance(method, key, count, len(np.unique(groups)), note=few))
        elif all(is_number(value) for value in values):
            numbers = np.array(values, np.float64)
            row = _row(method, key, means, _thirds(numbers))
            rho, low, high = rank_correlation(numbers, means)
            rows.append(row._replace(rho=rho, low=low, high=high))
        else:
            rows.append(_row(method, key, means, groups))
    return rows


def _keys(scores: Sequence[_Score]) -> list[str]:
    """The options that some of the scores have, each once; the seed is the last."""
    keys: dict[str, None] = {}
    for one in scores:
        keys |= dict.fromkeys(one.values)
    return [*(key for key in keys if key != SEED), SEED]


def _row(
    method: str, key: str, scores: Float[np.ndarray, "n"], groups: Int[np.ndarray, "n"]
) -> OptionImportance:
    """A row with the share of variance."""
    count = len(np.unique(groups))
    return OptionImportance(
        method=method,
        key=key,
        scores=len(scores),
        groups=count,
        share=share_of_variance(scores, groups),
        by_chance=(count - 1) / (len(scores) - 1),
    )


def _codes(values: Sequence[Any]) -> Int[np.ndarray, "n"]:
    """The group of each value: equal values have the same group."""
    return pd.factorize(np.array([repr(value) for value in values], dtype=object))[0]


def _thirds(values: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The group of each number: the lowest, middle or highest third. Numbers with few different
    values, such as 2 to 4 clusters, are grouped by value."""
    if len(np.unique(values)) <= GROUPS:
        return _codes(values.tolist())
    # Equal numbers share their mean rank, and so their group.
    ranks = stats.rankdata(values)
    return np.minimum((GROUPS * (ranks - 0.5) / len(values)).astype(np.int64), GROUPS - 1)


def is_number(value: Any) -> bool:
    """Whether a value is a number, and neither true nor false."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
