"""Tests by which a client detects that its data have shifted, for labels that are numbers, and for
any loss. They are not from a paper.

The label test compares quantiles of the labels, and does not see a change of y given x. The loss
test compares the losses of the client's cluster model. Shapes: M samples, Q quantiles, B bins.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int, Real

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_not_negative, check_positive

QUANTILES = 20
LEAST_DISTANCE = 0.2  # in standard deviations of the label
# Without a shift, 95% of distances are below 1.84 to 2.14 times sqrt(1 / n + 1 / m), for normal,
# exponential and t(3) labels of 20 to 1,000 samples.
FALSE_ALARM_FACTOR = 2.1
LARGEST_T = 3.0


def label_quantiles(y: Real[np.ndarray, "M"], count: int = QUANTILES) -> Float64[np.ndarray, "Q"]:
    """The quantiles of a client's labels at the levels (j - 1/2) / Q, j = 1 .. Q, with linear
    interpolation. A client stores them when it is assigned to a cluster.

    Args:
        y: labels of the client, at least one.
        count: Q, the number of quantiles.

    Raises:
        MethodError: there are no labels.
    """
    if not len(y):
        raise MethodError("quantiles need at least one label, got none")
    return np.quantile(np.asarray(y, np.float64), (np.arange(count) + 0.5) / count)


def quantile_distance(
    new: Real[np.ndarray, "Q"], old: Real[np.ndarray, "Q"], deviation: float
) -> float:
    """Mean absolute difference of the quantiles, in standard deviations of the label: an estimate
    of the Wasserstein-1 distance between the client's present and its stored labels.

    Args:
        new: quantiles of the present labels.
        old: quantiles of the stored labels.
        deviation: pooled standard deviation of the label of all clients, above 0.
    """
    check_positive("deviation", deviation)
    return float(np.abs(np.subtract(new, old, dtype=np.float64)).mean()) / deviation


def quantile_threshold(new_samples: int, old_samples: int, least: float = LEAST_DISTANCE) -> float:
    """Largest ``quantile_distance`` without a shift: ``least``, or 2.1 sqrt(1 / n + 1 / m) for few
    samples.

    Without a shift the distance is about sqrt(1 / n + 1 / m), so 0.2 alone gives false alarms in
    87% of clients with 20 samples, and in 24% with 100. Clients with fewer than 50 samples detect
    only moves of about one standard deviation.

    Args:
        new_samples: n, the client's present number of samples.
        old_samples: m, its number of samples when the quantiles were stored.
        least: smallest distance that is a shift, however many samples there are.
    """
    check_positive("new_samples", new_samples)
    check_positive("old_samples", old_samples)
    by_chance = FALSE_ALARM_FACTOR * math.sqrt(1 / new_samples + 1 / old_samples)
    return max(least, by_chance)


def labels_shifted(
    y: Real[np.ndarray, "M"],
    old: Real[np.ndarray, "Q"],
    old_samples: int,
    deviation: float,
    least: float = LEAST_DISTANCE,
) -> bool:
    """Whether a client's labels have shifted since it stored their quantiles.

    Args:
        y: the client's present labels.
        old: the stored quantiles (``label_quantiles``).
        old_samples: number of the client's samples when they were stored.
        deviation: pooled standard deviation of the label of all clients.
        least: smallest distance that is a shift, in these deviations.
    """
    distance = quantile_distance(label_quantiles(y, len(old)), old, deviation)
    return distance > quantile_threshold(len(y), old_samples, least)


def loss_statistic(
    new: Real[np.ndarray, "M"], old_mean: float, old_variance: float, old_samples: int
) -> float:
    """Welch's t of the client's present losses against its losses when it was assigned: (L_new -
    L_old) / sqrt(v_new / n_new + v_old / n_old). Above 3 the data have shifted.

    Both are losses of single samples under the model of the client's cluster at that time.

    Args:
        new: present loss of each sample.
        old_mean: mean loss when the client was assigned.
        old_variance: variance of these losses (divided by the count minus 1).
        old_samples: number of these losses.

    Returns:
        t; 0 with fewer than two present or old losses. If no loss varies, t is infinite with the
        sign of the difference, and 0 without a difference.
    """
    check_not_negative("old_variance", old_variance)
    if len(new) < 2 or old_samples < 2:
        return 0.0
    losses = np.asarray(new, np.float64)
    difference = float(losses.mean()) - old_mean
    error = math.sqrt(float(losses.var(ddof=1)) / len(losses) + old_variance / old_samples)
    if error > 0:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def losses_shifted(
    new: Real[np.ndarray, "M"], old_mean: float, old_variance: float, old_samples: int
) -> bool:
    """Whether a client's losses have risen so much that its data must have shifted: t > 3.

    Args:
        new: present loss of each sample.
        old_mean: mean loss when the client was assigned.
        old_variance: variance of these losses.
        old_samples: number of these losses.
    """
    return loss_statistic(new, old_mean, old_variance, old_samples) > LARGEST_T


def bin_distance(new: Int[np.ndarray, "B"], old: Int[np.ndarray, "B"]) -> float:
    """Wasserstein-1 distance between two histograms over the same bins, in bins: the sum of the
    absolute differences of the cumulative shares at the inner edges.

    FlexCFL's ``label_blind`` must not be used on bins of a number: it sorts the counts, and so
    forgets the order of the bins.

    Args:
        new: number of present samples in each bin.
        old: number of stored samples in each bin.

    Raises:
        MethodError: one of the histograms is empty.
    """
    if not new.sum() or not old.sum():
        raise MethodError("a distance of histograms needs samples in both")
    difference = np.cumsum(new) / new.sum() - np.cumsum(old) / old.sum()
    return float(np.abs(difference[:-1]).sum())
