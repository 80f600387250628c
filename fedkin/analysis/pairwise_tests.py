"""Tests whether methods differ significantly, paired by seed, for repeated runs and for
comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.statistics import LEAST_SEEDS, LEVEL, holm, interval, paired_p

SIGNIFICANT = "significant"
NOT_SIGNIFICANT = "not significant"
TOO_FEW = "too few seeds"
NO_SCORE = "no score"
Reasons = Mapping[str, str]  # by method: the reason why some seeds have no value


def pairs(
    values: Mapping[str, Float[np.ndarray, "S"]],
    main: str | None = None,
    reasons: Reasons | None = None,
    sign: int = 1,
) -> pd.DataFrame:
    """Test the difference of every pair of methods, or of one method and each other method.

    The table has a row for each pair. The method with the better mean comes first in its row, and
    the row with the largest difference is at the top. With ``main``, rows are in the order of the
    other methods.

    Tests are paired by seed, because seed s of all methods has the same data and cohorts. The
    columns are:

    * ``method``, ``against``, ``seeds``: the pair, and the number of seeds in which both have a
      value.
    * ``difference``, ``low``, ``high``: mean difference and its 95% interval (Student's t).
    * ``p``: two-sided paired t-test, Holm-adjusted over all pairs of the table.
    * ``verdict``: "significant" if p is below 0.05, otherwise "not significant". A pair with fewer
      than three seeds is not tested; its verdict is "no score" if seeds were left out because a
      score is missing, otherwise "too few seeds".
    * ``why``: the reason why seeds are left out.

    Args:
        values: one value per seed for each method; NaN if missing.
        main: the method to compare with each other method; None: every pair.
        reasons: reasons of missing values, by method.
        sign: 1 if higher values are better, -1 if lower values are better.
    """
    reasons = reasons or {}
    if main is None:
        rows = [
            _ordered(a, b, values=values, sign=sign) for a, b in itertools.combinations(values, 2)
        ]
    else:
        rows = [_pair(main, name, values[main], values[name]) for name in values if name != main]
    table = pd.DataFrame(rows, columns=list(_Pair._fields))
    if len(table):
        table["p"] = holm(table["p"].to_numpy(np.float64))
    if len(table) and main is None:
        table = table.sort_values(
            "difference", ascending=sign < 0, kind="stable", ignore_index=True
        )
    named = zip(table["method"], table["against"], strict=True)
    why = [" ".join(reasons[name] for name in pair if name in reasons) or None for pair in named]
    p = table["p"].astype(float)
    tested = np.where(p < LEVEL, SIGNIFICANT, NOT_SIGNIFICANT)
    untested = np.where([reason is not None for reason in why], NO_SCORE, TOO_FEW)
    verdict = np.where(p.isna(), untested, tested)
    return table.assign(verdict=verdict, why=pd.Series(why, dtype=object))


class _Pair(NamedTuple):
    """A row of the table that ``pairs`` returns, without verdict and reason."""

    method: str
    against: str
    seeds: int
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan


def _ordered(a: str, b: str, values: Mapping[str, Float[np.ndarray, "S"]], sign: int) -> _Pair:
    """The table row of two methods, with the one that has the better mean first."""
    ours = values[a]
    theirs = values[b]
    both = np.isfinite(ours) & np.isfinite(theirs)
    swap = both.any() and sign * theirs[both].mean() > sign * ours[both].mean()
    return _pair(b, a, theirs, ours) if swap else _pair(a, b, ours, theirs)


def _pair(a: str, b: str, ours: Float[np.ndarray, "S"], theirs: Float[np.ndarray, "S"]) -> _Pair:
    """The table row of the pair of methods a and b, from their values by seed; only seeds with both
    values count."""
    # A test by pairs needs the values of both methods for the same seed.
    both = np.isfinite(ours) & np.isfinite(theirs)
    first = ours[both]
    second = theirs[both]
    seeds = int(both.sum())
    if not seeds:
        return _Pair(a, b, 0)
    gain = float(np.mean(first - second))
    if seeds < LEAST_SEEDS:
        return _Pair(a, b, seeds, gain)
    band = interval((first - second)[:, None])
    return _Pair(
        method=a,
        against=b,
        seeds=seeds,
        difference=gain,
        low=float(band.low[0]),
        high=float(band.high[0]),
        p=paired_p(first, second),
    )


def not_worse_than_best(
    pairs: Iterable[Mapping[str, Any]], means: Mapping[str, float | None], sign: int = 1
) -> set[str]:
    """The methods with the best mean, and all methods that are not significantly worse.

    If no pair could be tested, the result is only the best method, or several with the same mean.

    If seeds are missing, a method may have the best mean only because its remaining seeds are easy.
    The test of two methods uses only the seeds that both have. In this test, another method may
    even be significantly better than the one with the best mean. Such a method is returned too.

    Args:
        pairs: the tests of one setting: rows of the table that the function ``pairs`` returns.
        means: mean of each method; None if missing.
        sign: 1 if higher means are better, -1 if lower means are better.
    """
    scored = {name: mean for name, mean in means.items() if mean is not None}
    if not scored:
        return set()
    best = max(scored, key=lambda name: sign * scored[name])
    equal = [(row["method"], row["against"]) for row in pairs if row["verdict"] == NOT_SIGNIFICANT]
    # Possible only if seeds are missing, as the docstring says.
    better = [
        (row["method"], row["against"])
        for row in pairs
        if row["verdict"] == SIGNIFICANT and row["against"] == best
    ]
    first = {name for name, mean in scored.items() if math.isclose(mean, scored[best])}
    return first.union(*(pair for pair in (*equal, *better) if best in pair))
