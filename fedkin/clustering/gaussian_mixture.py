"""Mixtures of two Gaussians in one dimension, fitted by hard expectation maximisation (each value
belongs to one component entirely).

Shapes: n rows of m values. Every row is a separate problem, such as the similarities that one peer
has computed. A mask selects the values that count.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

MAX_STEPS = 100  # a row usually needs two or three
MIN_DEVIATION = 0.05  # deviation of a component without variance, relative to the row's range


def split_two_gaussians(
    values: Float[np.ndarray, "n m"],
    initial: Bool[np.ndarray, "n m"],
    mask: Bool[np.ndarray, "n m"],
) -> Bool[np.ndarray, "n m"]:
    """Mask of the values of each row (a separate problem) that belong to the component with the
    higher mean.

    Initial values start in component 0, all others in component 1. Then two steps alternate until
    the split no longer changes:

        mu_r, sigma_r^2 = mean and variance of component r's values
        beta_r          = component r's share of the values

        y_j goes to component 0 if beta_0 phi(y_j; mu_0, sigma_0) > beta_1 phi(y_j; mu_1, sigma_1),
        otherwise to component 1

    where y_j is a value and phi the density of a Gaussian.

    Source: HNM of PANM (Li & Wu 2022), eqs. 6-9. The paper does not define these cases:

    * component 0 starts empty: the result is empty;
    * component 1 starts empty, or all values are equal: the result is the initial mask;
    * component 0 loses its last value: the result is the initial mask;
    * component 1 loses its last value: the result is all values;
    * a component without variance (a single value, or equal values): its deviation is
      ``MIN_DEVIATION`` times the row's range;
    * component 0 ends with the lower mean: the components are swapped;
    * no convergence after ``MAX_STEPS`` steps: the current split.

    Args:
        values: the values to split, one row for each problem.
        initial: mask of the values that start in component 0.
        mask: mask of the values that count; all others are ignored.
    """
    y, differ = _to_unit(np.where(mask, values, 0.0).astype(np.float64), mask)
    start = initial & mask
    high = start.copy()
    # Rows that can be split: both components start with values, and the values differ.
    split = start.any(axis=1) & (mask & ~start).any(axis=1) & differ
    unfinished = split.copy()
    for _ in range(MAX_STEPS):
        rows = np.flatnonzero(unfinished)
        if not len(rows):
            break
        after = _step(y[rows], high[rows], mask[rows])
        # A row whose component 0 loses its last value goes back to its initial mask.
        empty = ~after.any(axis=1)
        after[empty] = start[rows[empty]]
        split[rows[empty]] = False
        # If component 1 loses its last value, component 0 keeps all.
        full = (after == mask[rows]).all(axis=1)
        unfinished[rows] = (after != high[rows]).any(axis=1) & ~empty & ~full
        high[rows] = after
    swapped = _mean(y, high) < _mean(y, mask & ~high)
    return np.where((swapped & split)[:, None], mask & ~high, high)


def _to_unit(
    y: Float[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "n m"], Bool[np.ndarray, "n"]]:
    """Scale the values of each row to [0, 1]. Also returns which rows have different values, since
    a row of equal values cannot be scaled or split."""
    low = np.min(np.where(mask, y, np.inf), axis=1)
    high = np.max(np.where(mask, y, -np.inf), axis=1)
    value_range = np.where(mask.any(axis=1), high - low, 0)
    differ = value_range > 0
    above = np.where(mask, y - np.where(np.isfinite(low), low, 0)[:, None], 0)
    unit = np.zeros_like(y)
    np.divide(above, value_range[:, None], out=unit, where=differ[:, None])
    return unit, differ


def _step(
    y: Float[np.ndarray, "r m"], high: Bool[np.ndarray, "r m"], mask: Bool[np.ndarray, "r m"]
) -> Bool[np.ndarray, "r m"]:
    """One step of hard EM: estimate both components from the split, and split the values again."""
    total = mask.sum(axis=1, keepdims=True)
    log_density = []
    for part in (high, mask & ~high):
        count = part.sum(axis=1, keepdims=True)
        mean = _mean(y, part)[:, None]
        squares = (y - mean) ** 2
        deviation = np.sqrt(_mean(squares, part))[:, None]
        # A component of one value, or of equal values, has no variance, so its density would be
        # infinite.
        deviation = np.where(deviation > 1e-9, deviation, MIN_DEVIATION)
        log_density.append(np.log(count / total) - np.log(deviation) - squares / (2 * deviation**2))
    return mask & (log_density[0] > log_density[1])


def _mean(y: Float[np.ndarray, "r m"], part: Bool[np.ndarray, "r m"]) -> Float[np.ndarray, "r"]:
    """Mean of the values that ``part`` selects in each row; NaN if it selects none."""
    count = part.sum(axis=1)
    total = np.where(part, y, 0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(y), np.nan), where=count > 0)
