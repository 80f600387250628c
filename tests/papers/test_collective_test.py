"""The collective test on numbers whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from papers import collective_section
from papers.collective_test import collective_test, is_outside, without_copies
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


def test_a_copy_of_a_number_is_tested_once() -> None:
    """The same printed number with the same runs, or with some of them, is no more evidence."""
    ten = (*RUNS, 87.0, 87.5, 88.5, 89.5, 90.5)
    first = number(90.0, ten)
    copies = [number(90.0, ten), number(90.0, RUNS)]
    other_printed = number(90.1, ten)
    other_runs = number(90.0, (88.0, 89.0, 90.0, 91.0, 92.5))
    few = [number(90.0, RUNS[:1])] * 2  # without a test, and so not dropped
    numbers = [first, *copies, other_printed, other_runs, *few]
    assert without_copies(numbers) == [first, other_printed, other_runs, *few]
    groups = collective_section.groups_of(numbers)
    assert groups["all methods"] == [first, other_printed, other_runs, *few]


def test_the_inventory_counts_copies() -> None:
    """They are printed numbers that were run, though no further evidence."""
    assert "**2** were run" in collective_section.attempted([number(90.0), number(90.0)])


def headline_of(numbers: list[ComparedNumber], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(collective_section, "numbers_of", lambda results: numbers)
    return collective_section.headline({})


def test_the_check_without_fitted_settings_leaves_out_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fitted: FEMNIST, FlexCFL's Table I, and the first client's model of IFCA. What stays is
    MNIST's number, and row 2 of another Table I."""

    def of(table: str, row: str, column: str, mean: float) -> ComparedNumber:
        runs = tuple(mean + run - 90 for run in RUNS)
        compared = compare_number(row, column, mean, mean, runs=runs)
        variant = "a variant" if "," in column else ""
        return replace(compared, table=table, deviation=variant)

    numbers = [
        of("flexcfl-table3", "MNIST-MCLR", "FedAvg", 80.0),
        of("flexcfl-table3", "MNIST-MCLR", "IFCA", 81.0),
        of("flexcfl-table3", "MNIST-MCLR", "IFCA, first client", 82.0),
        of("flexcfl-table3", "FEMNIST-MCLR, shared images", "FedAvg", 83.0),
        of("flexcfl-table1", "2", "FedAvg", 84.0),
        of("fedgroup-table1", "2", "FedAvg", 85.0),
    ]
    text = headline_of(numbers, monkeypatch)
    assert "0 of 5 printed numbers" in text
    assert "Without these, 0 of 2 lie outside" in text


def test_the_headline_has_both_p_values_and_says_what_high_ones_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All printed numbers are our means: nearer than independent runs would be."""
    near = [
        compare_number("row", f"{i}", 90.0 + i, 90.0 + i, runs=[r + i for r in RUNS])
        for i in range(9)
    ]
    coded = [
        compare_number("row", "IFCA", 70.0, 70.0, runs=[r - 20 for r in RUNS]),
        compare_number("row", "IFCA, first client", 60.0, 60.0, runs=[r - 30 for r in RUNS]),
    ]
    text = headline_of([*near, *coded], monkeypatch)
    assert "binomial p = 1, Kolmogorov-Smirnov p = 0)" in text
    assert "nearer to ours than independent runs would be" in text


def test_the_headline_names_a_method_that_is_not_reproduced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All ten of IFCA's numbers lie outside, and none of FedAvg's."""

    def of(column: str, printed: float) -> ComparedNumber:
        return compare_number("row", column, printed, float(np.mean(RUNS)), runs=RUNS)

    numbers = [of("FedAvg", 90.0 + i / 100) for i in range(10)]
    numbers += [of("IFCA", 99.0 + i / 100) for i in range(10)]
    text = headline_of(numbers, monkeypatch)
    assert "0 of 10 printed numbers with at least 5 values of ours lie outside" in text
    assert text.endswith("**Not reproduced as the text describes them: IFCA.**")
    assert headline_of(numbers[:10], monkeypatch).endswith("Not rejected at 5%.")
    assert headline_of([], monkeypatch) == "No number has 5 runs yet."
