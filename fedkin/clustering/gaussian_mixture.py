"""A line of numbers in two kinds: a mixture of two Gaussians by hard expectation maximisation, many lines at once.

Letters: n rows, each a problem of its own; m values in a row, of which those under a mask count.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

STEPS = 100  # at most; a row usually needs two or three
NARROW = 0.05  # of a row's spread: the deviation of a component that has none


def split_two(
    similar: Float[np.ndarray, "n m"], started: Bool[np.ndarray, "n m"], there: Bool[np.ndarray, "n m"]
) -> Bool[np.ndarray, "n m"]:
    """Which values of each row belong to the component of the higher mean, from a start of where they may belong.

    Values that ``started`` and are ``there`` begin in component 0 (same kind), all others that are there in component
    1. Then, until nothing changes, by turns

        mu_r, sigma_r^2 = mean and variance of component r's values, beta_r = its share of the values
        y_j goes to component 0 if beta_0 phi(y_j; mu_0, sigma_0) > beta_1 phi(y_j; mu_1, sigma_1), else to 1

    Source: HNM of PANM (Li & Wu 2022), eqs. 6-9. What the paper leaves open is settled here:

    * nothing started in component 0: nothing is of the same kind (the caller has no idea yet, and must get one);
    * nothing started in component 1, or all values are equal: nothing can be told apart, the start is the answer;
    * component 0 loses its last value: the start is the answer; component 1 does: all are of the same kind;
    * a component without variance (a single value, equal values) has ``NARROW`` times the row's spread as deviation;
    * component 0 ends with the lower mean: the two change places;
    * no end after ``STEPS`` steps: the split as it is then.
    """
    y, differ = _to_unit(np.where(there, similar, 0.0).astype(np.float64), there)
    first = started & there
    same, known = first.copy(), first.any(axis=1) & (there & ~first).any(axis=1) & differ
    open_ = known.copy()
    for _ in range(STEPS):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        now = _step(y[rows], same[rows], there[rows])
        lost = ~now.any(axis=1)
        now[lost] = first[rows[lost]]
        known[rows[lost]] = False
        full = (now == there[rows]).all(axis=1)
        open_[rows] = (now != same[rows]).any(axis=1) & ~lost & ~full
        same[rows] = now
    upside_down = _mean(y, same) < _mean(y, there & ~same)
    return np.where((upside_down & known)[:, None], there & ~same, same)


def _to_unit(
    y: Float[np.ndarray, "n m"], there: Bool[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "n m"], Bool[np.ndarray, "n"]]:
    """Each row's values from 0 to 1, and whether they differ at all."""
    least, most = (extreme(np.where(there, y, end), axis=1) for extreme, end in ((np.min, np.inf), (np.max, -np.inf)))
    spread = np.where(there.any(axis=1), most - least, 0)
    away = np.where(there, y - np.where(np.isfinite(least), least, 0)[:, None], 0)
    return np.divide(away, spread[:, None], out=np.zeros_like(y), where=spread[:, None] > 0), spread > 0


def _step(
    y: Float[np.ndarray, "r m"], same: Bool[np.ndarray, "r m"], there: Bool[np.ndarray, "r m"]
) -> Bool[np.ndarray, "r m"]:
    """Estimate both components from the split, and split again."""
    total = there.sum(axis=1, keepdims=True)
    log_density = []
    for part in (same, there & ~same):
        count, middle = part.sum(axis=1, keepdims=True), _mean(y, part)[:, None]
        deviation = np.sqrt(_mean((y - middle) ** 2, part))[:, None]
        deviation = np.where(deviation > 1e-9, deviation, NARROW)
        log_density.append(np.log(count / total) - np.log(deviation) - (y - middle) ** 2 / (2 * deviation**2))
    return there & (log_density[0] > log_density[1])


def _mean(y: Float[np.ndarray, "r m"], part: Bool[np.ndarray, "r m"]) -> Float[np.ndarray, "r"]:
    """Of each row's values in a part; NaN of nothing."""
    count = part.sum(axis=1)
    return np.divide(np.where(part, y, 0).sum(axis=1), count, out=np.full(len(y), np.nan), where=count > 0)
