"""Quality of predicted intervals: coverage with Wilson's interval, width, crossing and the interval
score.

Sources: E. B. Wilson: Probable Inference, the Law of Succession, and Statistical Inference. JASA
22, 1927. T. Gneiting, A. Raftery: Strictly Proper Scoring Rules, Prediction, and Estimation. JASA
102, 2007, equation 43 (the interval score, also named after Winkler 1972).

Coverage alone is no score: a constant interval can have it. Shapes: B samples, N clients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Real

from fedkin.core.errors import MethodError


class IntervalScores(NamedTuple):
    """Measures of predicted intervals, means over the samples.

    Attributes:
        coverage: share of labels inside their interval, ends included.
        width: high - low, in units of the label; a crossed interval counts as negative.
        crossing: share of intervals with low above high.
        score: the interval score, in units of the label; lower is better.
    """

    coverage: float
    width: float
    crossing: float
    score: float


def covered(
    y: Real[np.ndarray, "B"], low: Real[np.ndarray, "B"], high: Real[np.ndarray, "B"]
) -> Bool[np.ndarray, "B"]:
    """Whether each label is inside its interval, ends included.

    Args:
        y: labels.
        low: lower ends.
        high: upper ends.
    """
    return (low <= y) & (y <= high)


def interval_score(
    y: Real[np.ndarray, "B"],
    low: Real[np.ndarray, "B"],
    high: Real[np.ndarray, "B"],
    miss: float,
) -> Float64[np.ndarray, "B"]:
    """The interval score of each sample: high - low, and 2 / a times the distance of a label
    outside (Gneiting & Raftery 2007, eq. 43).

    Its expectation is lowest for the quantiles a / 2 and 1 - a / 2. It is 2 / a times the sum of
    their pinball losses.

    Args:
        y: labels.
        low: lower ends.
        high: upper ends.
        miss: a, the share of labels that may be outside, between 0 and 1; 0.2 for an interval of
            80%.
    """
    _check_share("miss", miss)
    below = np.maximum(np.subtract(low, y, dtype=np.float64), 0)
    above = np.maximum(np.subtract(y, high, dtype=np.float64), 0)
    return np.subtract(high, low, dtype=np.float64) + 2 / miss * (below + above)


def interval_scores(
    y: Real[np.ndarray, "B"],
    low: Real[np.ndarray, "B"],
    high: Real[np.ndarray, "B"],
    miss: float,
) -> IntervalScores:
    """Coverage, width, crossing and score of predicted intervals; NaN without samples.

    Args:
        y: labels.
        low: lower ends.
        high: upper ends.
        miss: a, the share of labels that may be outside; 0.2 for an interval of 80%.
    """
    scores = interval_score(y, low, high, miss)
    if not len(y):
        return IntervalScores(np.nan, np.nan, np.nan, np.nan)
    return IntervalScores(
        coverage=float(covered(y, low, high).mean()),
        width=float(np.subtract(high, low, dtype=np.float64).mean()),
        crossing=float((low > high).mean()),
        score=float(scores.mean()),
    )


def wilson_interval(
    hits: Int[np.ndarray, "N"], samples: Int[np.ndarray, "N"], confidence: float = 0.95
) -> tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """Wilson's confidence interval of a share, such as a client's coverage; from 0 to 1 without
    samples.

    It stays within 0 and 1 and is not empty at shares of 0 and 1. With 15 to 40 samples it is wide:
    the lowest coverage of many clients is mostly noise.

    Args:
        hits: number of samples that count, such as covered ones.
        samples: number of samples.
        confidence: probability of the interval, between 0 and 1.

    Returns:
        The lower and the upper ends.

    Raises:
        MethodError: a number of hits is below 0 or above the number of samples.
    """
    # Imported here, because it is slow to import and few users of the module need it.
    from scipy.special import ndtri

    _check_share("confidence", confidence)
    if (hits < 0).any() or (hits > samples).any():
        raise MethodError("hits must be from 0 to the number of samples, for each client")
    z = float(ndtri((1 + confidence) / 2))
    n = np.asarray(samples, np.float64)
    share = np.divide(hits, n, out=np.full(len(n), 0.5), where=n > 0)
    centre = n * share + z**2 / 2
    half = z * np.sqrt(n * share * (1 - share) + z**2 / 4)
    low = (centre - half) / (n + z**2)
    high = (centre + half) / (n + z**2)
    # Rounding must not leave a share of 0 or 1 outside its interval.
    return np.where(hits == 0, 0.0, low), np.where(hits == samples, 1.0, high)


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise MethodError(f"{name} must be above 0 and below 1, such as 0.2, got {value!r}")
