"""The collective test on numbers whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from papers import collective_section
from papers.collective_test import collective_test, is_outside
from papers.prediction import p_value, prediction_interval
from papers.reproduction_marks import ComparedNumber, compare_number

RUNS = (88.0, 89.0, 90.0, 91.0, 92.0)  # mean 90, deviation sqrt(2.5)
HALF = 2.776445 * np.sqrt(2.5) * np.sqrt(6 / 5)  # t of 4 degrees of freedom, 97.5%


def number(printed: float, runs: tuple[float, ...] = RUNS) -> ComparedNumber:
    return compare_number("row", "method", printed, float(np.mean(runs)), runs=runs)


def test_the_interval_is_students_for_one_more_run() -> None:
    """Without sqrt(1 + 1/n) it would be the interval of the mean, 1.96 wide on each side."""
    assert prediction_interval(RUNS) == pytest.approx((90 - HALF, 90 + HALF), rel=1e-5)
    assert prediction_interval((99.0, 98.0, 99.5, 97.0, 99.0))[1] == 100.0
    assert not is_outside(number(90 + HALF - 0.01)) and is_outside(number(90 + HALF + 0.01))


def test_the_p_value_is_two_sided() -> None:
    assert p_value(90 + HALF, RUNS) == pytest.approx(0.05, rel=1e-4)
    assert p_value(90 - HALF, RUNS) == pytest.approx(0.05, rel=1e-4)
    assert p_value(90.0, RUNS) == 1
    assert p_value(90.0, (90.0,) * 5) == 1 and p_value(91.0, (90.0,) * 5) == 0


def test_runs_of_the_same_experiment_are_not_rejected_and_shifted_ones_are() -> None:
    """Printed numbers and runs are drawn from one normal distribution, then three deviations
    apart."""
    rng = np.random.default_rng(0)
    alike = [number(rng.normal(80, 2), tuple(rng.normal(80, 2, 5))) for _ in range(400)]
    same = collective_test(alike)
    assert same is not None and same.numbers == 400 and same.expected == 20
    assert 8 <= same.outside <= 34  # 20 +- 3 deviations of 4.4
    assert not same.rejected and same.uniform_p > 0.01
    shifted = [number(rng.normal(86, 2), tuple(rng.normal(80, 2, 5))) for _ in range(40)]
    other = collective_test(shifted)
    assert other is not None and other.rejected and other.uniform_p < 1e-6
    assert other.shift == pytest.approx(-6, abs=1.5)


def test_the_binomial_p_is_of_as_many_outside_or_more() -> None:
    """Two of ten outside: 1 - 0.95^10 - 10 * 0.05 * 0.95^9 = 0.0861."""
    numbers = [number(90.0)] * 8 + [number(99.0)] * 2
    test = collective_test(numbers)
    assert test is not None and test.outside == 2
    assert test.binomial_p == pytest.approx(1 - 0.95**10 - 10 * 0.05 * 0.95**9)
    assert test.uniform_p == pytest.approx(
        stats.kstest([1.0] * 8 + [p_value(99.0, RUNS)] * 2, "uniform").pvalue
    )


def test_numbers_with_few_runs_or_none_printed_are_left_out() -> None:
    assert collective_test([number(90.0, RUNS[:4])]) is None
    assert collective_test([compare_number("row", "method", None, 90.0, runs=RUNS)]) is None


def test_the_headline_names_a_method_that_is_not_reproduced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All ten of IFCA's numbers lie outside, and none of FedAvg's."""

    def of(column: str, printed: float) -> ComparedNumber:
        return compare_number("row", column, printed, float(np.mean(RUNS)), runs=RUNS)

    numbers = [of("FedAvg", 90.0)] * 10 + [of("IFCA", 99.0)] * 10
    monkeypatch.setattr(collective_section, "numbers_of", lambda results: numbers)
    text = collective_section.headline({})
    assert "0 of 10 printed numbers with at least 5 values of ours lie outside" in text
    assert text.endswith("**Not reproduced as the text describes them: IFCA.**")
    monkeypatch.setattr(collective_section, "numbers_of", lambda results: numbers[:10])
    assert collective_section.headline({}).endswith("Not rejected at 5%.")
    monkeypatch.setattr(collective_section, "numbers_of", lambda results: [])
    assert collective_section.headline({}) == "No number has 5 runs yet."
