"""Against SciPy, and against numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from fedkin.analysis.statistics import LEAST_SEEDS, holm, interval, paired_p
from fedkin.core.errors import ConfigError

# Student (1908), the sleep data: extra hours of ten patients under two drugs.
FIRST = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SECOND = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
COMPARED = arrays(np.float64, (5, 2), elements=st.floats(0, 1))


# --- interval


def test_the_interval_is_students() -> None:
    curves = np.stack([FIRST, SECOND], axis=1)
    band = interval(curves, 0.9)
    for r in range(2):
        low, high = stats.t.interval(0.9, 9, curves[:, r].mean(), stats.sem(curves[:, r]))
        assert (band.mean[r], band.low[r], band.high[r]) == pytest.approx(
            (curves[:, r].mean(), low, high)
        )


def test_two_seeds_have_a_wide_interval_and_one_has_none() -> None:
    two = interval(np.array([[0.4], [0.6]]))
    # t quantile of one degree of freedom, as printed in every table; sem = 0.1414 / sqrt(2).
    half = 12.7062047 * 0.1
    assert (two.low[0], two.mean[0], two.high[0]) == pytest.approx((0.5 - half, 0.5, 0.5 + half))
    one = interval(np.array([[0.4, 0.6]]))
    assert one.mean.tolist() == [0.4, 0.6]
    assert np.isnan(one.low).all() and np.isnan(one.high).all()


def test_an_interval_of_nothing_or_of_no_confidence_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one seed"):
        interval(np.zeros((0, 3)))
    for confidence in (0.0, 1.0, 95.0):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            interval(np.zeros((3, 3)), confidence)


# --- the paired test


def test_the_t_test_on_students_own_data() -> None:
    p = paired_p(SECOND, FIRST)
    assert p == pytest.approx(0.002833, abs=5e-7)  # t = 4.0621, 9 degrees of freedom, both tails
    assert p == pytest.approx(stats.ttest_rel(SECOND, FIRST).pvalue)
    assert paired_p(FIRST, SECOND) == p  # whoever is named first


def test_no_difference_is_no_evidence() -> None:
    same = np.full(4, 0.3)
    assert paired_p(same, same) == paired_p(same + 1e-15, same) == 1.0


def test_constant_differences_are_a_sign_test() -> None:
    theirs = np.array([0.1, 0.2, 0.3])
    # t is infinite; 2 of 8 signs.
    assert paired_p(theirs + 0.2, theirs) == paired_p(theirs - 0.2, theirs) == 0.25


@pytest.mark.parametrize("seeds", range(1, LEAST_SEEDS))
def test_too_few_seeds_test_nothing(seeds: int) -> None:
    assert math.isnan(paired_p(np.full(seeds, 0.9), np.zeros(seeds)))


def test_a_missing_number_is_no_number() -> None:
    assert math.isnan(paired_p(np.array([0.5, np.nan, 0.7]), np.zeros(3)))


# --- Holm


def test_holm_by_hand() -> None:
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never less than the one before
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]
    assert holm(np.array([0.02])).tolist() == [0.02]


def test_unknown_p_do_not_count() -> None:
    p = np.array([[0.01, np.nan], [np.nan, np.nan], [0.04, 0.02]])
    np.testing.assert_allclose(holm(p), [[0.02, np.nan], [np.nan, np.nan], [0.04, 0.02]])


@given(COMPARED)
def test_holm_only_raises_and_keeps_the_order(p: np.ndarray) -> None:
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= 1).all()
    assert (adjusted <= np.minimum(1, len(p) * p)).all()  # never worse than Bonferroni
    for r in range(p.shape[1]):
        assert (np.diff(adjusted[np.argsort(p[:, r]), r]) >= 0).all()


@given(COMPARED, st.permutations(range(5)))
def test_holm_does_not_depend_on_the_order(p: np.ndarray, order: list[int]) -> None:
    assert (holm(p[order]) == holm(p)[order]).all()
