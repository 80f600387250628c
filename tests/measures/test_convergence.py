"""ATHENA-FL's count of epochs, bytes and intervals, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedkin.core.errors import MethodError
from fedkin.measures.convergence import (
    confidence_interval,
    convergence_epoch,
    economy,
    mean_convergence_epoch,
    transmitted_mib,
)

RISING = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
AT_2 = np.array([0.5, 0.5, 0.7, 0.7, 0.9])
AT_4 = np.array([0.2, 0.4, 0.6, 0.6, 0.9])
AT_5 = np.array([0.9, 0.8, 0.7, 0.6, 0.6])


def test_the_first_epoch_that_is_like_the_one_before() -> None:
    assert [convergence_epoch(curve) for curve in (AT_2, AT_4, AT_5, RISING)] == [2, 4, 5, None]


def test_the_tolerance_is_relative_and_strict() -> None:
    """0.5 and 0.75 are exact in binary: 0.75 is at 1.5 times 0.5, and not within it."""
    assert convergence_epoch(np.array([0.5, 0.75]), 0.5) is None
    assert convergence_epoch(np.array([0.5, 0.74]), 0.5) == 2
    assert convergence_epoch(np.array([0.5, 0.25]), 0.5) is None
    assert convergence_epoch(np.array([0.5, 0.26]), 0.5) == 2
    assert convergence_epoch(np.array([0.01, 0.0101, 0.010105])) == 3  # 1 %, then 0.05 %


def test_nothing_to_compare() -> None:
    assert convergence_epoch(np.array([0.9])) is None
    assert convergence_epoch(np.zeros(0)) is None
    assert convergence_epoch(np.zeros((0, 5))) is None
    assert convergence_epoch(np.zeros(5)) is None  # nothing lies between 0 and 0
    assert convergence_epoch(np.array([np.nan, 0.5, np.nan])) is None


def test_mean_accuracy_of_several_detectors() -> None:
    """Means 0.4, 0.5, 0.5: neither detector stands still, their mean does."""
    assert convergence_epoch(np.array([[0.2, 0.4, 0.3], [0.6, 0.6001, 0.7]]), 1e-3) == 3
    assert convergence_epoch(AT_4[None]) == 4


def test_mean_epoch_of_several_detectors() -> None:
    accuracy = np.stack([AT_2, AT_5, AT_4])
    assert mean_convergence_epoch(accuracy) == pytest.approx(11 / 3)
    # One that does not converge is left out.
    assert mean_convergence_epoch(np.stack([AT_2, RISING, AT_5])) == 3.5
    assert mean_convergence_epoch(np.stack([RISING, RISING])) is None


def test_as_coded_all_are_detector_2() -> None:
    assert mean_convergence_epoch(np.stack([AT_2, AT_5, AT_4, AT_2]), as_coded=True) == 4
    assert mean_convergence_epoch(np.stack([AT_2, AT_5, RISING]), as_coded=True) is None
    with pytest.raises(MethodError, match=r"at least 3 .*got 2"):
        mean_convergence_epoch(np.stack([AT_2, AT_5]), as_coded=True)


def test_transmitted_in_mib() -> None:
    assert transmitted_mib(3, 10, 2**20) == 30
    assert transmitted_mib(2.5, 1, 2**19) == 1.25


def test_economy() -> None:
    assert economy(1, 4) == 0.75
    assert economy(6, 4) == -0.5
    with pytest.raises(MethodError, match="above 0; got 0"):
        economy(1, 0)


def test_confidence_interval_against_scipy() -> None:
    values = np.random.default_rng(0).normal(0.8, 0.1, 10)
    mean, half = confidence_interval(values)
    assert mean == pytest.approx(values.mean())
    assert half == pytest.approx(1.96 * stats.sem(values))


def test_confidence_interval_by_hand() -> None:
    """2, 4 and 6: s = 2."""
    assert confidence_interval(np.array([2.0, 4.0, 6.0])) == pytest.approx((4, 3.92 / math.sqrt(3)))
    mean, half = confidence_interval(np.array([0.7]))
    assert mean == 0.7 and math.isnan(half)
    with pytest.raises(MethodError, match="at least 1 value"):
        confidence_interval(np.zeros(0))
