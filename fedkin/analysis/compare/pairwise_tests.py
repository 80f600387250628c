"""Paired tests of every pair of methods, over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.statistics import LEAST_SEEDS, LEVEL, holm, interval, paired_p

SIGNIFICANT, NOT_SIGNIFICANT, TOO_FEW = "significant", "not significant", "too few seeds"


def pairs(values: Mapping[str, Float[np.ndarray, "S"]]) -> pd.DataFrame:
    """Every pair of methods, the one with the higher mean first, the largest difference at the top.

    Seed s of all methods saw the same data and cohorts, so seeds are pairs. Columns: ``method``, ``against``,
    ``seeds``, ``difference`` (mean over the seeds in which both have a number), ``low`` and ``high`` (its 95% interval,
    Student's t), ``p`` (two-tailed paired t-test, Holm-adjusted over all pairs) and ``verdict``: "significant" where p
    is below 0.05. With fewer than three seeds nothing is tested.

    Args:
        values: one number a seed for each method, NaN where there is none; shares from 0 to 1.
    """
    rows = [_pair(a, b, values[a], values[b]) for a, b in itertools.combinations(values, 2)]
    table = pd.DataFrame(rows, columns=list(_Pair._fields))
    if len(table):
        table["p"] = holm(table["p"].to_numpy(np.float64))
        table = table.sort_values("difference", ascending=False, kind="stable", ignore_index=True)
    p = table["p"].astype(float)
    verdict = np.where(p.isna(), TOO_FEW, np.where(p < LEVEL, SIGNIFICANT, NOT_SIGNIFICANT))
    return table.assign(verdict=verdict)


class _Pair(NamedTuple):
    """A row of the table; columns as in ``pairs``."""

    method: str
    against: str
    seeds: int
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan


def _pair(a: str, b: str, ours: Float[np.ndarray, "S"], theirs: Float[np.ndarray, "S"]) -> _Pair:
    both = np.isfinite(ours) & np.isfinite(theirs)
    first, second = ours[both], theirs[both]
    if both.any() and second.mean() > first.mean():
        return _pair(b, a, theirs, ours)
    seeds = int(both.sum())
    if not seeds:
        return _Pair(a, b, 0)
    gain = float(np.mean(first - second))
    if seeds < LEAST_SEEDS:
        return _Pair(a, b, seeds, gain)
    band = interval((first - second)[:, None])
    either_way = 2 * min(float(paired_p(first, second)), float(paired_p(second, first)))
    return _Pair(a, b, seeds, gain, float(band.low[0]), float(band.high[0]), min(1.0, either_way))


def not_worse_than_best(pairs: Iterable[Mapping[str, Any]], means: Mapping[str, float | None]) -> set[str]:
    """The method with the highest mean, and all that are not significantly worse; where nothing could be tested, only
    the highest. ``pairs`` are the rows of ``pairs``, of one setting.

    Where seeds are missing, a mean may be the highest because it is that of easy seeds; then the other may come first
    in their pair, and may even be the better one."""
    known = {name: mean for name, mean in means.items() if mean is not None}
    if not known:
        return set()
    best = max(known, key=lambda name: known[name])
    equal = [(row["method"], row["against"]) for row in pairs if row["verdict"] == NOT_SIGNIFICANT]
    better = [
        (row["method"], row["against"]) for row in pairs if row["verdict"] == SIGNIFICANT and row["against"] == best
    ]
    return {best}.union(*(pair for pair in (*equal, *better) if best in pair))
