"""The corrected interval over draws of one data set (Nadeau & Bengio 2003): by hand, and against
Student's interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedkin as fk
from fedkin.core.errors import MethodError
from fedkin.measures.corrected_interval import corrected_interval


def test_without_test_samples_it_is_students_interval() -> None:
    values = [0.3, 0.5, 0.1, 0.9]
    found = corrected_interval(values, test_ratio=0.0)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    test: Any = stats.ttest_1samp(values, 0)
    assert found.p == pytest.approx(test.pvalue)


def test_the_variance_is_corrected_by_hand() -> None:
    """Five draws with 20% for testing, 80% for training: the half width is sqrt(1/5 + 1/4) instead
    of sqrt(1/5) times t times the deviation, so 1.5 times as wide."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    student = corrected_interval(values, test_ratio=0.0)
    corrected = corrected_interval(values, test_ratio=0.25)
    assert corrected.mean == 3
    assert corrected.high - 3 == pytest.approx(1.5 * (student.high - 3))
    assert 3 - corrected.low == pytest.approx(corrected.high - 3)
    assert corrected.p > student.p
    assert fk.corrected_interval(values, 0.25, confidence=0.5).low > corrected.low


def test_one_draw_and_equal_draws() -> None:
    single = corrected_interval([0.4], test_ratio=0.25)
    assert single.mean == 0.4
    assert math.isnan(single.low) and math.isnan(single.high) and math.isnan(single.p)
    assert corrected_interval([2.0, 2.0], test_ratio=0.25) == (2, 2, 2, 0)
    assert corrected_interval([0.0, 0.0], test_ratio=0.25) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("values", "ratio", "confidence", "words"),
    [
        ([], 0.25, 0.95, "values"),
        ([1.0, math.nan], 0.25, 0.95, "values"),
        ([1.0, 2.0], -0.1, 0.95, "test_ratio"),
        ([1.0, 2.0], 0.25, 1.0, "confidence"),
    ],
)
def test_impossible_values_are_refused(
    values: list[float], ratio: float, confidence: float, words: str
) -> None:
    with pytest.raises(MethodError, match=words):
        corrected_interval(values, ratio, confidence)
