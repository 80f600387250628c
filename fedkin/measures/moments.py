"""Pooled mean and variance of a number, and the variance between clients, from three sums of each
client: its count, its mean, and its sum of squared differences from this mean (M2).

Merging: T. Chan, G. Golub, R. LeVeque: Updating Formulae and a Pairwise Algorithm for Computing
Sample Variances. 1979. Intraclass correlation by one-way analysis of variance with unequal sizes:
A. Donner: A Review of Inference Procedures for the Intraclass Correlation Coefficient in the
One-Way Random Effects Model. International Statistical Review 54, 1986.

Shapes: M samples, N clients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Real

# A smaller deviation, as a share of the mean, comes from rounding.
_ROUNDING = 4 * np.finfo(np.float64).eps


class Moments(NamedTuple):
    """Three sums of a number over the samples of each client.

    Attributes:
        count: number of samples [N].
        mean: mean of each client's samples [N]; 0 without samples.
        squares: M2, the sum of squared differences from the client's mean [N].
    """

    count: Int[np.ndarray, "N"]
    mean: Float64[np.ndarray, "N"]
    squares: Float64[np.ndarray, "N"]

    def pooled(self) -> Moments:
        """The moments of all samples together, as those of one client [1].

        Squared differences from the common mean are those from the client's mean, and the client's
        count times the squared distance of the two means.
        """
        count = int(self.count.sum())
        mean = float((self.count * self.mean).sum()) / max(count, 1)
        squares = float((self.squares + self.count * (self.mean - mean) ** 2).sum())
        return Moments(np.array([count]), np.array([mean]), np.array([squares]))

    @property
    def deviation(self) -> Float64[np.ndarray, "N"]:
        """Standard deviation of each client's samples, divided by the count; NaN without any."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.squares / self.count)


def moments(values: Real[np.ndarray, "M"], client: Int[np.ndarray, "M"], clients: int) -> Moments:
    """The moments of each client's values, in two passes, so that a large mean costs no digits.

    Args:
        values: the number of each sample, such as its label or its residual.
        client: position of the client of each sample, 0 .. clients - 1.
        clients: number of clients N.
    """
    numbers = np.asarray(values, np.float64)
    count = np.bincount(client, minlength=clients)
    present = np.maximum(count, 1)
    mean = np.bincount(client, weights=numbers, minlength=clients) / present
    squares = np.bincount(client, weights=(numbers - mean[client]) ** 2, minlength=clients)
    # Without samples, NumPy counts in integers.
    return Moments(count, mean, squares.astype(np.float64))


class MeanAndDeviation(NamedTuple):
    """Mean and standard deviation (of the population) of each column."""

    mean: Float64[np.ndarray, "d"]
    deviation: Float64[np.ndarray, "d"]


def moments_of_sums(
    count: Int[np.ndarray, "d"],
    total: Float64[np.ndarray, "d"],
    squares: Float64[np.ndarray, "d"],
    centre: Float64[np.ndarray, "d"],
) -> MeanAndDeviation:
    """Mean and standard deviation of columns from sums about an agreed centre c, such as a server
    gets: mean = c + S1 / n, variance = (S2 - S1^2 / n) / n.

    The centre should be near the mean: with c = 0, a mean of 1e4 and a deviation of 1, float32 sums
    keep no digit of the variance.

    Args:
        count: n, the number of samples of each column, at least 1.
        total: S1, the sum of y - c.
        squares: S2, the sum of (y - c)^2.
        centre: c, in units of the column.
    """
    variance = (squares - total**2 / count) / count
    # Rounding must not make the variance of equal values negative.
    return MeanAndDeviation(centre + total / count, np.sqrt(np.maximum(variance, 0)))


def above_rounding(
    mean: Float64[np.ndarray, "d"], deviation: Float64[np.ndarray, "d"]
) -> Float64[np.ndarray, "d"]:
    """The deviations of columns; 0 where a deviation is so small, as a share of the mean, that it
    comes from rounding. So a column of equal numbers is constant."""
    return np.where(deviation <= _ROUNDING * np.abs(mean), 0.0, deviation)


def between_share(parts: Moments) -> float:
    """Share of the pooled variance that lies between the clients' means (eta squared); NaN if all
    values are equal.

    It is 1 - sum of M2 of the clients / M2 of all samples, and grows with the number of clients
    even if they do not differ: ``intraclass_correlation`` corrects for this.
    """
    total = float(parts.pooled().squares[0])
    return 1 - float(parts.squares.sum()) / total if total > 0 else float("nan")


def intraclass_correlation(parts: Moments) -> float:
    """Intraclass correlation (ICC): the share of the variance of single values that comes from
    differences between clients, estimated by one-way analysis of variance; at least 0.

    The mean square between clients exceeds the mean square within them by n0 times the variance
    between, where n0 is the mean client size, corrected for unequal sizes. For the residuals of a
    shared model, it is about the share of the loss that one intercept for each client can save.

    Returns:
        A number from 0 to 1; NaN if there are fewer than two clients with samples, no client has
        two samples, or all values are equal.
    """
    # Clients without samples do not count.
    sizes = parts.count[parts.count > 0]
    samples = int(sizes.sum())
    clients = len(sizes)
    if clients < 2 or samples == clients:
        return float("nan")
    within_squares = float(parts.squares.sum())
    total_squares = float(parts.pooled().squares[0])
    between = (total_squares - within_squares) / (clients - 1)
    within = within_squares / (samples - clients)
    size = (samples - float((sizes.astype(np.float64) ** 2).sum()) / samples) / (clients - 1)
    variance = max((between - within) / size, 0.0)
    if not variance + within > 0:
        return float("nan")
    return variance / (variance + within)
