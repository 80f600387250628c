"""Kolmogorov-Smirnov statistic of two clients' samples, by feature (FedSim, Fig. 1).

Shapes: n and m samples of the clients, d features.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Real


def ks_statistics(
    first: Real[np.ndarray, "n d"], second: Real[np.ndarray, "m d"]
) -> Float64[np.ndarray, "d"]:
    """Two-sample Kolmogorov-Smirnov statistic of each feature, D = max over v of |F(v) - G(v)|.

    F(v) and G(v) are the shares of the first and of the second client's samples that are at most v.
    D is 0 if they are equal everywhere, and 1 if the values of the two clients do not overlap.
    """
    n = len(first)
    m = len(second)
    values = np.concatenate([first, second]).T  # d x (n + m)
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)

    # F - G times n m, in whole numbers: a sample of the first client adds m, one of the second
    # takes n away.
    difference = np.abs(np.cumsum(np.where(order < n, m, -n), axis=1))

    # Shares are taken after all samples of a value, so only the last of equal values counts.
    is_last = np.ones(values.shape, bool)
    is_last[:, :-1] = ascending[:, 1:] != ascending[:, :-1]
    return np.where(is_last, difference, 0).max(axis=1) / (n * m)
