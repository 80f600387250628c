"""Confidence interval of a mean over random draws of train and test sets from one data set.

The draws share samples, so they are not independent, and Student's interval over draws is too
narrow. Nadeau and Bengio add the ratio of test to training samples to the variance of the mean:
C. Nadeau, Y. Bengio: Inference for the Generalization Error. Machine Learning 52, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_not_negative


class CorrectedInterval(NamedTuple):
    """A mean over draws with its corrected confidence interval, in the unit of the values.

    Attributes:
        mean: mean over the draws.
        low: lower end of the interval; NaN with one draw.
        high: upper end of the interval; NaN with one draw.
        p: two-sided p of the corrected t-test that the mean is 0; NaN with one draw.
    """

    mean: float
    low: float
    high: float
    p: float


def corrected_interval(
    values: Sequence[float], test_ratio: float, confidence: float = 0.95
) -> CorrectedInterval:
    """Mean and confidence interval of a figure over J random draws of a split (Nadeau & Bengio
    2003): the variance of the mean is (1/J + n_test / n_train) times the variance of the values.

    To compare two methods, take the same draws for both, and give the differences (or the relative
    gains) by draw.

    Args:
        values: the figure in each draw, such as the gain of one method over another.
        test_ratio: n_test / n_train, the number of scored samples for each sample that models are
            trained on: 0.25 for 60/20/20 with models that are refit on train and validation; 1/3 if
            they are not. 0 gives Student's interval of independent draws.
        confidence: probability of the interval, between 0 and 1.

    Raises:
        MethodError: there are no values, one is not finite, or an option is out of range.

    Examples:
        >>> import fedkin as fk
        >>> gains = [0.9, 1.1, 1.0, 1.3, 0.7]
        >>> interval = fk.corrected_interval(gains, test_ratio=0.25)
        >>> [round(float(value), 2) for value in interval[:3]]
        [1.0, 0.58, 1.42]
    """
    # Imported here, because it is slow to import and few users of the module need it.
    from scipy import stats

    check_not_negative("test_ratio", test_ratio)
    if not 0 < confidence < 1:
        raise MethodError(f"confidence must be above 0 and below 1, got {confidence!r}")
    drawn = np.asarray(values, np.float64)
    if drawn.ndim != 1 or not len(drawn) or not np.isfinite(drawn).all():
        raise MethodError(f"values must be one finite number for each draw, got {values!r:.80}")
    mean = float(drawn.mean())
    draws = len(drawn)
    if draws == 1:
        return CorrectedInterval(mean, math.nan, math.nan, math.nan)
    error = math.sqrt((1 / draws + test_ratio) * float(drawn.var(ddof=1)))
    half = float(stats.t.ppf((1 + confidence) / 2, draws - 1)) * error
    if error > 0:
        p = 2 * float(stats.t.sf(abs(mean) / error, draws - 1))
    else:
        # All draws have the same value.
        p = 1.0 if mean == 0 else 0.0
    return CorrectedInterval(mean, mean - half, mean + half, p)
