"""Split conformal prediction: predicted intervals that are widened until they cover a given share
of labels.

Sources: Y. Romano, E. Patterson, E. Candes: Conformalized Quantile Regression. NeurIPS 2019.

The scores come from validation samples that the model has not seen. The correction of pooled scores
covers the mixture of all clients, not each of them. Shapes: B samples.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Real

from fedkin.core.errors import MethodError


def conformity_scores(
    y: Real[np.ndarray, "B"], low: Real[np.ndarray, "B"], high: Real[np.ndarray, "B"]
) -> Float64[np.ndarray, "B"]:
    """The score max(low - y, y - high) of each sample: how far its label is outside its predicted
    interval, negative inside.

    Args:
        y: labels.
        low: predicted lower ends.
        high: predicted upper ends.
    """
    below = np.subtract(low, y, dtype=np.float64)
    above = np.subtract(y, high, dtype=np.float64)
    return np.maximum(below, above)


def conformal_rank(samples: int, miss: float) -> int:
    """The rank k = ceil((n + 1)(1 - a)) of the score that is the correction.

    If k > n the correction is infinite, because n samples are too few: fewer than 9 for a = 0.1.

    Args:
        samples: n, the number of scores.
        miss: a, the share of labels that may be outside, between 0 and 1; 0.2 for an interval of
            80%.
    """
    if not 0 < miss < 1:
        raise MethodError(f"miss must be above 0 and below 1, such as 0.2, got {miss!r}")
    # (n + 1)(1 - a) may be a whole number that is computed a little too large.
    return math.ceil(round((samples + 1) * (1 - miss), 9))


def conformal_quantile(scores: Real[np.ndarray, "B"], miss: float) -> float:
    """The correction of a predicted interval: the k-th smallest score, k = ceil((n + 1)(1 - a)).

    The interval from low - correction to high + correction covers the label of a new sample of the
    same distribution with a probability of at least 1 - a. A negative correction narrows the
    interval.

    Args:
        scores: scores of validation samples (``conformity_scores``), none of them NaN.
        miss: a, the share of labels that may be outside, between 0 and 1; 0.2 for an interval of
            80%.

    Returns:
        The correction, in units of the label; infinity if there are too few scores.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> fk.conformal_quantile(np.arange(1.0, 10.0), miss=0.2)
        8.0
    """
    if np.isnan(scores).any():
        raise MethodError("scores must be numbers, but some are NaN; leave out these samples")
    rank = conformal_rank(len(scores), miss)
    if rank > len(scores):
        return math.inf
    return float(np.partition(scores, rank - 1)[rank - 1])
