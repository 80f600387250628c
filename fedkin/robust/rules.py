"""Rules that aggregate n vectors of which at most f are Byzantine, and what is done to the vectors before.

Rows x_i [n P] are one client's each, in the order of the clients' numbers, so that ties (equal rows) do not depend on
who replied first. All rules are unweighted: a client's number of samples is its own word. Sources: coordinate-wise
median and trimmed mean (Yin et al., ICML 2018), Krum (Blanchard et al., NeurIPS 2017), geometric median (Pillutla et
al., 2022), mean around the median (Xie et al., 2018), nearest-neighbour mixing (Allouah et al., AISTATS 2023), adaptive
clipping ARC (Allouah et al., 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float64, Int

from fedkin.core.errors import ConfigError, unknown

Rows = Float64[np.ndarray, "n P"]
_STEPS, _CLOSE = 1000, 1e-13  # of the geometric median: at most so many, until a step is so small


def mean(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The mean, which one Byzantine row can move anywhere: what the rules are compared with."""
    return rows.mean(axis=0)


def median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The median of every coordinate; of an even number of rows the middle of the two."""
    return np.median(rows, axis=0)


def trimmed_mean(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The mean of every coordinate without its f lowest and f highest values."""
    return np.sort(rows, axis=0)[f : len(rows) - f].mean(axis=0)


def mean_around_median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The mean, in every coordinate, of the n - f values nearest to the median."""
    order = np.argsort(np.abs(rows - np.median(rows, axis=0)), axis=0, kind="stable")
    return np.take_along_axis(rows, order[: len(rows) - f], axis=0).mean(axis=0)


def krum(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The row with the least sum of squared distances to its n - f - 2 nearest others (Blanchard et al.)."""
    return rows[np.argmin(krum_scores(rows, len(rows) - f - 2))]


def multi_krum(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The mean of the n - f rows with the least sums of squared distances to their n - f - 1 nearest others."""
    scores = krum_scores(rows, len(rows) - f - 1)
    return rows[np.argsort(scores, kind="stable")[: len(rows) - f]].mean(axis=0)


def geometric_median(rows: Rows, f: int) -> Float64[np.ndarray, "P"]:
    """The point with the least sum of distances to the rows, by Weiszfeld's steps from the mean until they end."""
    point = rows.mean(axis=0)
    for _ in range(_STEPS):
        distances = np.linalg.norm(rows - point, axis=1)
        weights = 1 / np.maximum(distances, 1e-12 * max(1.0, float(distances.max())))
        moved = weights @ rows / weights.sum()
        step, point = float(np.linalg.norm(moved - point)), moved
        if step <= _CLOSE * max(1.0, float(np.linalg.norm(point))):
            break
    return point


def nearest_neighbour_mixing(rows: Rows, f: int) -> Rows:
    """Every row becomes the mean of the n - f rows nearest to it, itself included (NNM)."""
    chosen = np.zeros((len(rows), len(rows)))
    np.put_along_axis(chosen, nearest_rows(rows, f), 1 / (len(rows) - f), axis=1)
    return chosen @ rows


def nearest_rows(rows: Rows, f: int) -> Int[np.ndarray, "n m"]:
    """The numbers of the m = n - f rows nearest to each row, itself included."""
    return np.argsort(squared_distances(rows), axis=1, kind="stable")[:, : len(rows) - f]


def adaptive_clipping(rows: Rows, f: int) -> Rows:
    """The k = floor(2 f / n (n - f)) longest rows are cut to the length of the next one (ARC)."""
    n = len(rows)
    k = math.floor(2 * (f / n) * (n - f)) if n else 0
    lengths = np.linalg.norm(rows, axis=1)
    if not k:
        return rows
    limit = np.sort(lengths)[n - k - 1]
    return rows * np.minimum(1, np.divide(limit, lengths, out=np.ones(n), where=lengths > 0))[:, None]


def squared_distances(rows: Rows) -> Float64[np.ndarray, "n n"]:
    """Squared Euclidean distances of all pairs, from the Gram matrix; equal rows are at 0."""
    inner = rows @ rows.T
    lengths = inner.diagonal()
    return np.maximum(lengths[:, None] + lengths - 2 * inner, 0)


def krum_scores(rows: Rows, neighbours: int) -> Float64[np.ndarray, "n"]:
    """Each row's sum of squared distances to its nearest others."""
    return np.sort(squared_distances(rows), axis=1)[:, 1 : neighbours + 1].sum(axis=1)


RULES: dict[str, Callable[[Rows, int], Float64[np.ndarray, "P"]]] = {
    "mean": mean,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "mean_around_median": mean_around_median,
    "krum": krum,
    "multi_krum": multi_krum,
    "geometric_median": geometric_median,
}
BEFORE: dict[str, Callable[[Rows, int], Rows]] = {"nnm": nearest_neighbour_mixing, "arc": adaptive_clipping}


def parse(rule: str) -> tuple[list[str], str]:
    """``nnm+trimmed_mean``: what is done to the rows before, in this order, and the rule.

    Raises:
        ConfigError: a name that is none.
    """
    *before, last = rule.split("+")
    for name, known in (*((name, BEFORE) for name in before), (last, RULES)):
        if name not in known:
            raise ConfigError(unknown("rule" if known is RULES else "step before a rule", name, known))
    return before, last


def aggregate(rows: Float[np.ndarray, "n P"], rule: str, f: int) -> Float64[np.ndarray, "P"]:
    """What a rule makes of the rows, in float64.

    Args:
        rows: of n clients, at least one, finite, in the order of their numbers.
        rule: a name of ``RULES``, with names of ``BEFORE`` in front: ``nnm+trimmed_mean``.
        f: how many of the clients may be Byzantine.

    Raises:
        ConfigError: an unknown name; half of the rows or more Byzantine, or for Krum n < f + 3, where nothing helps.
    """
    before, last = parse(rule)
    n = len(rows)
    if not 0 <= 2 * f < n:
        raise ConfigError(
            f"{rule}: {f} Byzantine clients of {n} cannot be told from the others: fewer than half may be"
        )
    if last == "krum" and n < f + 3:
        raise ConfigError(f"{rule}: with {f} Byzantine clients it needs {f + 3} replies or more, got {n}")
    mixed = rows.astype(np.float64)
    for name in before:
        mixed = BEFORE[name](mixed, f)
    return RULES[last](mixed, f)
