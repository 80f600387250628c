"""Ranks of methods over settings: average ranks, Friedman's test, and tests of pairs.

Source: J. Demsar: Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 7 (2006).

A setting is a data set with a configuration. Here settings are the samples of the tests, so the
results generalise to other settings of this kind, whereas tests over seeds generalise to other
seeds of one setting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from fedkin.analysis.latex import escaped, tabular
from fedkin.analysis.statistics import LEVEL, holm
from fedkin.analysis.tables import rows_of

# Minimum numbers of methods and settings for the tests and the figure.
LEAST_METHODS = 3
LEAST_SETTINGS = 5
# SciPy tests up to so many differences with ties over all signs, and more of them approximately.
_MOST_SIGNS = 13


@dataclass(frozen=True, eq=False)
class Ranks:
    """Average ranks of methods and tests of their differences.

    Attributes:
        scores: mean scores over the seeds, with a row for each setting and a column for each
            method. Settings with a missing score are left out.
        average: mean rank over the settings by method, in the order of ``scores`` (1 is best; ties
            share a rank).
        friedman: Friedman's chi-square, corrected for ties. This and the following attributes are
            NaN below three methods or two settings.
        p: p of Friedman's test of the hypothesis that all methods are equal.
        critical_difference: smallest significant difference of two average ranks (Nemenyi, 5%).
        pairs: a row for each pair, with the better rank first: difference of ranks, ``p_nemenyi``,
            and ``p_wilcoxon`` (two-sided signed-rank test over settings, with Pratt's treatment of
            zeros, Holm-adjusted over all pairs).
    """

    scores: pd.DataFrame
    average: dict[str, float]
    friedman: float
    p: float
    critical_difference: float
    pairs: pd.DataFrame

    @property
    def tested(self) -> bool:
        """Whether there are enough methods and settings for the tests and their figure."""
        return len(self.average) >= LEAST_METHODS and len(self.scores) >= LEAST_SETTINGS

    @property
    def differ(self) -> bool:
        """Whether Friedman's test finds that the methods are not all equal. If False, no pair is
        reported as different."""
        return self.tested and self.p < LEVEL

    def table(self) -> pd.DataFrame:
        """A table with a row for each method, best rank first: the average rank, and the methods
        that differ by more than the critical difference. If ``differ`` is False, no methods are
        listed."""
        ordered = sorted(self.average.items(), key=lambda item: item[1])
        # Pairs count only after Friedman's test has found a difference between the methods.
        least = self.critical_difference if self.differ else math.inf
        rows = []
        for method, average in ordered:
            apart = [other for other, rank in ordered if abs(rank - average) > least]
            rows.append(
                {"method": method, "average_rank": average, "differs_from": "; ".join(apart)}
            )
        return pd.DataFrame(rows, columns=["method", "average_rank", "differs_from"])

    def summary(self) -> dict[str, Any]:
        """The test results as plain JSON values."""
        numbers = {
            "friedman": self.friedman,
            "p": self.p,
            "critical_difference": self.critical_difference,
        }
        plain = {name: None if math.isnan(value) else value for name, value in numbers.items()}
        return {"settings": len(self.scores), **plain, "pairs": rows_of(self.pairs)}

    def latex(self) -> str:
        """The table as LaTeX, with the tests as comments below it."""
        rows = [
            [escaped(row["method"]), f"{row['average_rank']:.2f}", escaped(row["differs_from"])]
            for row in rows_of(self.table())
        ]
        heads = ["Method", "Average rank", "Differs from"]
        return tabular(heads, rows, self.notes(), text_columns=(0, 2))

    def notes(self) -> list[str]:
        """Sentences that explain the ranks and the tests."""
        lines = [
            f"Average ranks over {len(self.scores)} settings, from the mean over the seeds; 1 is "
            "best."
        ]
        if self.tested:
            lines.append(f"Friedman: chi-square {self.friedman:.2f}, p = {self.p:.2g}.")
            nemenyi = "No pair of methods is significantly different."
            if self.differ:
                nemenyi = (
                    f"Nemenyi: a difference of ranks above {self.critical_difference:.2f} "
                    "is significant."
                )
            lines.append(nemenyi)
        least = least_wilcoxon(len(self.average))
        if self.tested and len(self.scores) < least:
            lines.append(
                f"Wilcoxon's test of all pairs of {len(self.average)} methods, Holm-adjusted, "
                f"cannot be significant with fewer than {least} settings."
            )
        return lines


def rank(scores: pd.DataFrame, sign: int = 1) -> Ranks:
    """Average ranks of methods: they are ranked in each setting, and the ranks are averaged.

    Args:
        scores: a row for each setting, a column for each method. Rows with NaN are left out.
        sign: 1 if higher scores are better, -1 if lower scores are better.
    """
    whole = scores.dropna(axis=0)
    settings, methods = whole.shape
    ranks = whole.rank(axis=1, ascending=sign < 0)
    average = {}
    if settings:
        average = {str(name): float(value) for name, value in ranks.mean(axis=0).items()}
    friedman = math.nan
    p = math.nan
    critical = math.nan
    if settings >= 2 and methods >= LEAST_METHODS:
        # If all scores are tied, the test is undefined, and the methods are equal.
        friedman = 0.0
        p = 1.0
        if (whole.nunique(axis=1) > 1).any():
            friedman, p = map(float, stats.friedmanchisquare(*(whole[name] for name in whole)))
        quantile = float(stats.studentized_range.ppf(1 - LEVEL, methods, np.inf))
        critical = _error(settings, methods) * quantile
    return Ranks(
        scores=whole,
        average=average,
        friedman=friedman,
        p=p,
        critical_difference=critical,
        pairs=_pairs(whole, average),
    )


def why_missing(
    scores: Mapping[str, Mapping[str, Float[np.ndarray, "S"]]], ranked: Sequence[str]
) -> str | None:
    """The reason why methods or settings have no ranks. None if all have ranks, or if there is only
    one setting.

    Args:
        scores: scores of all methods by setting and method, one for each seed; NaN if missing.
        ranked: the methods that ran in some setting.
    """
    if len(scores) == 1:
        return None
    lacking: dict[str, list[str]] = {}
    for setting, by_method in scores.items():
        without = [method for method in ranked if not np.isfinite(by_method[method]).all()]
        if without:
            lacking[setting] = without
    methods = next(iter(scores.values()))
    unranked = [method for method in methods if method not in ranked]
    parts = [f"{', '.join(unranked)} could not be run in any setting"] if unranked else []
    parts += [
        f"{setting} has no score of {', '.join(without)} from every seed"
        for setting, without in lacking.items()
    ]
    if not parts:
        return None
    count = len(scores) - len(lacking)
    return f"ranks are over {count} of {len(scores)} settings: {'; '.join(parts)}"


def least_wilcoxon(methods: int) -> int:
    """Smallest number of settings with which Wilcoxon's test of a pair can be significant.

    With n settings the smallest p of a pair is 2 / 2^n, and Holm's adjustment multiplies it by the
    number of pairs."""
    pairs = max(1, methods * (methods - 1) // 2)
    return math.floor(math.log2(2 * pairs / LEVEL)) + 1


def _error(settings: int, methods: int) -> float:
    """The standard error of a difference of average ranks, divided by sqrt(2), as the studentized
    range requires."""
    return math.sqrt(methods * (methods + 1) / (12 * settings))


def _pairs(whole: pd.DataFrame, average: dict[str, float]) -> pd.DataFrame:
    """A table with a row for each pair of methods, the largest difference of ranks first."""
    settings, methods = whole.shape
    rows = []
    for a, b in itertools.combinations(sorted(average, key=lambda name: average[name]), 2):
        gap = average[b] - average[a]
        nemenyi = math.nan
        wilcoxon = math.nan
        if settings >= 2 and methods >= LEAST_METHODS:
            errors = gap / _error(settings, methods)
            nemenyi = float(stats.studentized_range.sf(errors, methods, np.inf))
            wilcoxon = _wilcoxon(whole[a].to_numpy(float) - whole[b].to_numpy(float))
        rows.append((a, b, gap, nemenyi, wilcoxon))
    table = pd.DataFrame(
        rows, columns=["method", "against", "rank_difference", "p_nemenyi", "p_wilcoxon"]
    )
    if len(table):
        table["p_wilcoxon"] = holm(table["p_wilcoxon"].to_numpy(np.float64))
    return table.sort_values("rank_difference", ascending=False, kind="stable", ignore_index=True)


def _wilcoxon(difference: np.ndarray) -> float:
    """The p of Wilcoxon's signed-rank test of two methods, from their differences in each setting;
    1 if all differences are 0."""
    # Rounding makes differences equal that differ only by rounding errors.
    exact = np.round(difference, 12)
    if not exact.any():
        return 1.0
    values = np.abs(exact)
    repeats = not exact.all() or len(np.unique(values)) < len(values)
    if repeats and len(exact) <= _MOST_SIGNS and np.isfinite(exact).all():
        return _p_over_all_signs(exact)
    # The result is (statistic, p).
    return float(np.asarray(stats.wilcoxon(exact, zero_method="pratt"))[1])


def _p_over_all_signs(difference: np.ndarray) -> float:
    """The two-sided p of Wilcoxon's signed-rank test where differences are equal or 0: the share of
    all 2^n combinations of signs whose sum of positive ranks is as extreme.

    SciPy computes the same number, but calls a function for each combination.
    """
    count = len(difference)
    ranks = stats.rankdata(np.abs(difference))
    # Pratt: a difference of 0 has a rank, but no sign.
    signed = np.where(difference == 0, 0.0, ranks)
    positive = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    # Ranks are multiples of 1/2, so all sums are exact.
    sums = positive @ signed
    found = signed[difference > 0].sum()
    below = np.count_nonzero(sums <= found) / len(sums)
    above = np.count_nonzero(sums >= found) / len(sums)
    return min(1.0, 2 * min(below, above))
