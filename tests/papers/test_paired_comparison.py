"""FedSim's tests and printed numbers: against SciPy, against numbers worked by hand, and against
the paper's tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from papers.fedsim.paired_comparison import PairedComparison, compare, improvement
from papers.fedsim.paired_tests import bootstrap, paired_p

# Student (1908), the sleep data: extra hours of ten patients under two drugs.
FIRST = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SECOND = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
SHARES = arrays(np.float64, (4, 3), elements=st.integers(0, 20).map(lambda k: k / 20))
COMPARED = arrays(np.float64, (5, 2), elements=st.floats(0, 1))


def rng() -> np.random.Generator:
    return Stream(0, purpose="statistics").rng()


def noisy(seeds: int, rounds: int, gain: float, noise: float = 0.01, draw: int = 0) -> np.ndarray:
    """Curves of 0.5 + gain after a first round of 0.1 that all methods share."""
    curves = (
        0.5 + gain + noise * Stream(draw, purpose="noise").rng().standard_normal((seeds, rounds))
    )
    curves[:, 0] = 0.1
    return curves


def only(comparisons: list[PairedComparison]) -> PairedComparison:
    (comparison,) = comparisons
    return comparison


# --- paired tests


def test_the_t_test_on_students_own_data() -> None:
    p = paired_p(SECOND, FIRST)
    assert p.shape == ()
    # two-tailed 0.002833: t = 4.0621, 9 degrees of freedom.
    assert float(p) == pytest.approx(0.002833 / 2, abs=5e-7)
    assert float(p) == pytest.approx(stats.ttest_rel(SECOND, FIRST, alternative="greater").pvalue)
    assert float(paired_p(FIRST, SECOND)) == pytest.approx(1 - float(p))


def signed_rank_p(difference: np.ndarray) -> float:
    """Wilcoxon's one-tailed p by counting all signs; seeds without a difference are ranked too."""
    rank = stats.rankdata(np.abs(difference))
    found = rank[difference > 0].sum()
    moving = rank[difference != 0]
    sums = [moving[np.array(signs)].sum() for signs in product((False, True), repeat=len(moving))]
    return float(np.mean(np.array(sums) >= found))


@pytest.mark.parametrize(
    "difference",
    [
        [1.0, 2.0, 3.0],
        [1.0, -2.0, 3.0, 4.0, -5.0, 6.0],
        [1.0, 1.0, 2.0, -1.0, 3.0],
        [
            0.0,
            0.0,
            1.0,
            2.0,
            -3.0,
        ],  # ranks 3, 4 and 5: 4 of 8; had the zeros been dropped first, 5 of 8
        list(SECOND - FIRST),
    ],
)
def test_wilcoxon_counts_all_signs(difference: list[float]) -> None:
    exact = np.round(difference, 12)
    assert float(paired_p(exact, np.zeros(len(exact)), "wilcoxon")) == pytest.approx(
        signed_rank_p(exact), abs=1e-12
    )


def test_wilcoxon_of_many_seeds_with_zeros_is_nearly_exact() -> None:
    difference = np.array([0.0] * 20 + [-1, 2, 3, 4, 5, -6, 7, 8, 9, 10])
    # 20 of 1024; without an allowance for the zeros the approximation is 0.043.
    exact = signed_rank_p(difference)
    assert float(paired_p(difference, np.zeros(30), "wilcoxon")) == pytest.approx(exact, abs=0.006)


def test_wilcoxon_without_ties_is_scipys_exact_distribution() -> None:
    ours, theirs = Stream(3).rng().uniform(size=(2, 35))
    _, expected = stats.wilcoxon(ours, theirs, alternative="greater", method="exact")
    assert float(paired_p(ours, theirs, "wilcoxon")) == pytest.approx(expected, abs=1e-12)


def test_each_round_is_tested_on_its_own() -> None:
    ours, theirs = Stream(4).rng().uniform(size=(2, 8, 3))
    # Seeds without a difference in one round must not change the test of another.
    theirs[:2, 1] = ours[:2, 1]
    for test in ("t", "wilcoxon"):
        alone = [float(paired_p(ours[:, r], theirs[:, r], test)) for r in range(3)]
        assert paired_p(ours, theirs, test).tolist() == alone


def test_differences_that_are_equal_but_for_rounding_are_equal() -> None:
    ours = np.array([0.9, 0.4, 0.2, 0.9])
    theirs = np.array([0.8, 0.3, 0.3, 0.5])
    tied = signed_rank_p(np.array([1.0, 1.0, -1.0, 4.0]))
    assert tied == 4 / 16 and signed_rank_p(ours - theirs) != tied
    assert float(paired_p(ours, theirs, "wilcoxon")) == tied


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_no_difference_is_no_evidence(test: Any) -> None:
    theirs = np.full((4, 2), 0.3)
    assert paired_p(theirs, theirs, test).tolist() == [1.0, 1.0]
    assert paired_p(theirs + 1e-15, theirs, test).tolist() == [1.0, 1.0]


def test_constant_differences() -> None:
    theirs = np.array([0.1, 0.2, 0.3])
    # The sign test's: t is infinite, and three seeds are three.
    assert float(paired_p(theirs + 0.2, theirs)) == 0.125
    assert float(paired_p(theirs - 0.2, theirs)) == 1.0
    assert float(paired_p(theirs + 0.2, theirs, "wilcoxon")) == 0.125
    assert float(paired_p(theirs - 0.2, theirs, "wilcoxon")) == 1.0


@pytest.mark.parametrize("seeds", range(1, LEAST_SEEDS))
def test_too_few_seeds_test_nothing(seeds: int) -> None:
    for test in ("t", "wilcoxon"):
        p = paired_p(np.full((seeds, 2), 0.9), np.zeros((seeds, 2)), test)
        assert p.shape == (2,) and np.isnan(p).all()


def test_not_scored_stays_unknown() -> None:
    ours = np.array([[0.5, 0.5], [0.6, np.nan], [0.8, 0.7]])
    p = paired_p(ours, np.zeros((3, 2)))
    assert 0 < p[0] < 0.05 and np.isnan(p[1])


# --- FedSim's improvement


def test_improvement_by_hand() -> None:
    ours = np.array([[0.1, 0.5, 0.9], [0.1, 0.7, 0.7]])  # mean .1 .6 .8
    theirs = np.array([[0.1, 0.4, 0.6], [0.1, 0.6, 0.4]])  # mean .1 .5 .5
    points, deviation = improvement(ours, theirs)
    assert points == pytest.approx((0 + 10 + 30) / 2)  # T = 2, three points
    assert deviation == pytest.approx(math.sqrt((0 + 100 + 900) / 3 - (40 / 3) ** 2))


def test_point_0_is_in_the_sum() -> None:
    assert improvement(np.array([[0.3, 0.1]]), np.array([[0.2, 0.1]]))[0] == pytest.approx(10)


def test_one_round_is_no_curve() -> None:
    with pytest.raises(ConfigError, match="got 1"):
        improvement(np.ones((3, 1)), np.ones((3, 1)))
    with pytest.raises(ConfigError, match="at least one seed"):
        improvement(np.ones((0, 2)), np.ones((0, 2)))


@given(SHARES, SHARES)
def test_improvement_is_antisymmetric(ours: np.ndarray, theirs: np.ndarray) -> None:
    there = improvement(ours, theirs)
    back = improvement(theirs, ours)
    assert there[0] == pytest.approx(-back[0], abs=1e-9)
    assert there[1] == pytest.approx(back[1], abs=1e-9)


def test_the_published_improvements(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Tables 4, 6 and 7 from the authors' mean curves: values as printed, deviations from the
    thinned curves.

    14 of T + 1 rounds are left of the curves. With straight lines between them, the least thinned
    (T = 30) give the improvements to 0.2 and the deviations to 0.2; those over rounds 1..T alone
    would be off by up to 0.6.
    """
    curves = oracle("reference_curves")["fedsim_mean_curves_35_seeds"]
    printed = {
        ("main/mnist.csv", "fedavg"): ("7.32", 2.69),
        ("main/mnist.csv", "fedprox"): ("5.65", 4.35),
        ("other/mnist.csv", "fedavg"): ("11.69", 7.58),
        ("other/mnist.csv", "fedprox"): ("17.25", 8.26),
    }
    for (name, baseline), (text, deviation) in printed.items():
        curve = curves[name]
        rows = (
            pd.DataFrame(curve["rows"])
            .set_index("round")
            .astype(float)
            .reindex(range(curve["T"] + 1))
            .interpolate()
        )
        found = improvement(rows["fedsim"].to_numpy()[None], rows[baseline].to_numpy()[None])
        assert found == pytest.approx((float(text), deviation), abs=0.2)


# --- bootstrap


def test_the_bootstrap_of_many_seeds_is_nearly_students() -> None:
    differences = Stream(5).rng().normal(1.0, 2.0, 400)
    expected = stats.t.interval(0.9, 399, differences.mean(), stats.sem(differences))
    assert bootstrap(differences, rng(), 0.9) == pytest.approx(expected, abs=0.03)


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    """600 samples of five normal differences: 93.75% lie on both sides of the truth, and no
    interval is wider.

    The plain percentile interval covers 84%. Four standard errors of 0.93 are 0.042.
    """
    samples = Stream(6).rng().normal(size=(600, 5))
    ends = np.array([bootstrap(sample, rng(), draws=2000) for sample in samples])
    covered = float(np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0)))
    assert 0.885 <= covered <= 0.95


def test_three_seeds_span_the_interval() -> None:
    assert bootstrap(np.array([3.0, 1.0, 2.0]), rng()) == (1.0, 3.0)


def test_a_bootstrap_of_no_confidence_is_refused() -> None:
    for confidence in (0.0, 1.0, 95.0):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            bootstrap(np.zeros(3), rng(), confidence)


def test_the_bootstrap_of_a_constant_and_of_too_few() -> None:
    assert bootstrap(np.full(6, 2.5), rng()) == (2.5, 2.5)
    assert np.isnan(bootstrap(np.array([1.0, 2.0]), rng())).all()
    with pytest.raises(ConfigError, match="at least one draw"):
        bootstrap(np.ones(3), rng(), draws=0)


# --- comparisons


def test_a_comparison_number_by_number() -> None:
    ours = noisy(6, 5, 0.05, draw=1)
    first = noisy(6, 5, 0.0, draw=2)
    second = noisy(6, 5, 0.04, draw=3)
    found = compare({"first": first, "ours": ours, "second": second}, "ours", rng())
    assert [(c.method, c.against, c.seeds, c.rounds) for c in found] == [
        ("ours", "first", 6, 5),
        ("ours", "second", 6, 5),
    ]
    tests: list[tuple[Literal["t", "wilcoxon"], str]] = [("t", "p_t"), ("wilcoxon", "p_wilcoxon")]
    for test, name in tests:
        raw = [
            float(paired_p(ours[:, 1:].mean(1), other[:, 1:].mean(1), test))
            for other in (first, second)
        ]
        low, high = sorted(raw)
        by_hand = {low: min(1, 2 * low), high: max(2 * low, high)}
        assert [getattr(c, name) for c in found] == pytest.approx([by_hand[p] for p in raw])
    for comparison, other in zip(found, (first, second), strict=True):
        points = 100 * (ours - other)[:, 1:].mean(1)
        assert comparison.difference == pytest.approx(points.mean())
        assert (
            points.min() <= comparison.low < comparison.difference < comparison.high <= points.max()
        )
        assert (comparison.improvement, comparison.improvement_deviation) == improvement(
            ours, other
        )
    raw = np.stack(
        [
            stats.ttest_rel(ours[:, 1:], o[:, 1:], alternative="greater").pvalue
            for o in (first, second)
        ]
    )
    smaller = np.min(raw, axis=0)
    larger = np.max(raw, axis=0)
    adjusted = np.where(
        raw == smaller, np.minimum(1, 2 * smaller), np.minimum(1, np.maximum(2 * smaller, larger))
    )
    np.testing.assert_allclose([c.p_rounds[1:] for c in found], adjusted, rtol=1e-6)
    assert [c.p_rounds[0] for c in found] == [1.0, 1.0]


def test_from_which_round_on() -> None:
    gain = np.array([0.0, 0.1, -0.1, 0.1, 0.1])  # better in 1, worse in 2, better from 3 on
    theirs = noisy(5, 5, 0.0)
    ours = theirs + gain + np.linspace(-0.001, 0.001, 5)[:, None] * (gain != 0)
    found = only(compare({"ours": ours, "theirs": theirs}, "ours", rng()))
    assert found.significant.tolist() == [False, True, False, True, True]
    assert (found.share_significant, found.from_round) == (0.75, 3)
    ours[:, 4] = theirs[:, 4]
    assert only(compare({"ours": ours, "theirs": theirs}, "ours", rng())).from_round is None
    from_the_first = only(compare({"ours": theirs + 0.1, "theirs": theirs}, "ours", rng()))
    assert (from_the_first.share_significant, from_the_first.from_round) == (1.0, 1)


def test_verdicts() -> None:
    base = noisy(5, 4, 0.0)
    wobble = np.array([-0.02, 0.02, 0.01, -0.01, 0.0])[:, None]
    curves = {
        "base": base,
        "up": base + 0.1 + wobble,
        "down": base - 0.05 + wobble,
        "same": base + wobble,
        "twin": base,
    }
    found = {c.against: c for c in compare(curves, "base", rng())}
    assert {name: c.verdict for name, c in found.items()} == {
        "up": "worse",
        "down": "better",
        "same": "not significant",
        "twin": "not significant",
    }
    assert found["up"].high < 0 and found["up"].p_t > 0.95
    twin = found["twin"]
    assert (twin.difference, twin.low, twin.high, twin.p_t, twin.p_wilcoxon) == (
        0.0,
        0.0,
        0.0,
        1.0,
        1.0,
    )


def test_more_comparisons_ask_for_more() -> None:
    base = np.full((5, 2), 0.5)
    # t = 2.17 with 4 degrees of freedom.
    some = base + np.array([0.09, 0.01, 0.04, -0.01, 0.08])[:, None]
    raw = float(np.asarray(stats.ttest_1samp(some[:, 1] - 0.5, 0, alternative="greater"))[1])
    assert 0.025 < raw < 0.05
    alone = only(compare({"some": some, "base": base}, "some", rng()))
    assert (alone.p_t, alone.verdict) == (pytest.approx(raw), "better")
    together = compare({"some": some, "base": base, "again": base}, "some", rng())
    assert [c.p_t for c in together] == pytest.approx([2 * raw, 2 * raw])
    assert [c.verdict for c in together] == ["not significant"] * 2


@pytest.mark.parametrize("seeds", range(1, LEAST_SEEDS))
def test_too_few_seeds_to_tell(seeds: int) -> None:
    found = compare({"ours": noisy(seeds, 4, 0.3), "theirs": noisy(seeds, 4, 0.0)}, "ours", rng())
    comparison = only(found)
    assert comparison.verdict == "too few seeds"
    assert comparison.difference == pytest.approx(30)
    assert not comparison.significant.any() and comparison.from_round is None
    unknown = (comparison.low, comparison.high, comparison.p_t, comparison.p_wilcoxon)
    assert all(math.isnan(value) for value in (*unknown, comparison.share_significant))
    assert comparison.improvement == pytest.approx(40 * 3 / 4)


def test_rounds_that_some_curve_lacks_are_left_out() -> None:
    ours, theirs, third = (
        noisy(4, 6, gain, draw=draw) for draw, gain in enumerate((0.1, 0.0, 0.05))
    )
    # Rounds 1, 2, 4, 5 are left.
    ours[0, 0] = np.nan
    third[2, 3] = np.nan
    found = compare({"ours": ours, "theirs": theirs, "third": third}, "ours", rng())[0]
    kept = [1, 2, 4, 5]
    assert found.scored.tolist() == kept
    assert found.rounds == len(found.p_rounds) == len(found.significant) == 4
    assert found.improvement == pytest.approx(100 * (ours - theirs)[:, kept].mean(0).sum() / 3)
    assert found.difference == pytest.approx(100 * (ours - theirs)[:, [2, 4, 5]].mean())
    assert found.from_round == 2


@given(SHARES, SHARES, st.permutations(range(4)))
def test_the_order_of_seeds_does_not_matter(
    ours: np.ndarray, theirs: np.ndarray, order: list[int]
) -> None:
    """But for the bootstrap, whose draws take seeds by their place."""
    plain = only(compare({"ours": ours, "theirs": theirs}, "ours", rng()))
    mixed = only(compare({"ours": ours[order], "theirs": theirs[order]}, "ours", rng()))
    for name in ("improvement", "improvement_deviation", "difference", "p_t", "p_wilcoxon"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name), abs=1e-9), name
    np.testing.assert_allclose(mixed.p_rounds, plain.p_rounds, atol=1e-9)


def test_the_same_stream_gives_the_same_interval() -> None:
    curves = {"ours": noisy(7, 3, 0.1, draw=1), "theirs": noisy(7, 3, 0.0, draw=2)}
    one, again, other = (only(compare(curves, "ours", Stream(seed).rng())) for seed in (0, 0, 1))
    assert (one.low, one.high) == (again.low, again.high)
    assert (one.low, one.high) != (other.low, other.high)


@pytest.mark.parametrize(
    ("curves", "method", "words"),
    [
        ({}, "ours", "at least one method, got none"),
        ({"ours": np.ones((3, 2))}, "hours", "did you mean 'ours'"),
        (
            {"ours": np.ones((3, 2)), "theirs": np.ones((2, 2))},
            "ours",
            r"'ours' has \(3, 2\), 'theirs' \(2, 2\)",
        ),
        (
            {"ours": np.ones((3, 2)), "theirs": np.full((3, 2), 71.5)},
            "ours",
            "got 71.5 in 'theirs'; divide percent",
        ),
        (
            {"ours": np.ones((3, 2)), "theirs": np.full((3, 2), -np.inf)},
            "ours",
            "got -inf in 'theirs'",
        ),
        ({"ours": np.ones((3, 2)), "theirs": np.full((3, 2), np.nan)}, "ours", "got 0 of 2"),
        ({"ours": np.ones((3, 1)), "theirs": np.ones((3, 1))}, "ours", "at least two rounds"),
        ({"ours": np.ones((0, 2)), "theirs": np.ones((0, 2))}, "ours", "at least one seed"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    curves: dict[str, np.ndarray], method: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        compare(curves, method, rng())
