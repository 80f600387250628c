"""Which methods differ: the pairs of a comparison, against SciPy and Holm's procedure by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from fedkin.analysis.pairwise_tests import not_worse_than_best, pairs

NAN = float("nan")
RNG = np.random.default_rng(3)
VALUES = {
    name: mean + RNG.normal(0, 0.03, 6)
    for name, mean in (("a", 0.5), ("b", 0.56), ("c", 0.57), ("d", 0.9))
}


def by_holm(p: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Holm (1979): the i-th smallest of m is multiplied by m - i (i from 0), never below the one
    before, at most 1."""
    adjusted = {}
    before = 0.0
    for i, pair in enumerate(sorted(p, key=lambda one: p[one])):
        before = adjusted[pair] = min(1.0, max(before, p[pair] * (len(p) - i)))
    return adjusted


def test_every_pair_is_scipys_two_sided_test_adjusted_by_holm() -> None:
    table = pairs(VALUES)
    names = [tuple(sorted(pair)) for pair in zip(table["method"], table["against"], strict=True)]
    assert sorted(names) == list(itertools.combinations("abcd", 2))
    raw = {(a, b): float(stats.ttest_rel(VALUES[a], VALUES[b]).pvalue) for a, b in names}
    expected = by_holm(raw)
    assert table["p"].tolist() == pytest.approx([expected[pair] for pair in names])
    assert table["verdict"].tolist() == [
        "significant" if expected[pair] < 0.05 else "not significant" for pair in names
    ]
    assert {"significant", "not significant"} == set(table["verdict"])
    # The adjustment decides something here.
    assert any(raw[pair] < 0.05 <= expected[pair] for pair in names)


def test_the_higher_mean_comes_first_and_the_largest_difference_on_top() -> None:
    table = pairs(VALUES)
    for row in table.to_dict(orient="records"):
        difference = VALUES[row["method"]] - VALUES[row["against"]]
        assert row["difference"] == pytest.approx(difference.mean()) and row["difference"] > 0
        low, high = stats.t.interval(0.95, 5, difference.mean(), stats.sem(difference))
        assert (row["low"], row["high"]) == pytest.approx((low, high))
        assert row["seeds"] == 6
    assert table["difference"].is_monotonic_decreasing
    assert tuple(table.loc[0, ["method", "against"]]) == ("d", "a")


def test_seeds_that_one_of_two_lacks_count_for_neither() -> None:
    a = np.array([0.50, 0.61, NAN, 0.72, 0.40, 0.55])
    b = np.array([0.58, 0.66, 0.99, 0.83, NAN, 0.61])
    row = pairs({"a": a, "b": b}).loc[0]
    both = [0, 1, 3, 5]
    assert (row["method"], row["against"], row["seeds"]) == ("b", "a", 4)
    assert row["difference"] == pytest.approx(np.mean(b[both] - a[both]))
    assert row["p"] == pytest.approx(stats.ttest_rel(b[both], a[both]).pvalue)


def test_pairs_that_cannot_be_tested_do_not_count_in_the_adjustment() -> None:
    few = {"a": VALUES["a"], "b": VALUES["b"], "c": np.array([0.5, 0.6, NAN, NAN, NAN, NAN])}
    table = pairs(few)
    tested = (table["method"] == "b") & (table["against"] == "a")
    assert table["p"][tested].tolist() == pytest.approx(
        [stats.ttest_rel(VALUES["a"], VALUES["b"]).pvalue]
    )
    rest = [
        row for row in table.to_dict(orient="records") if "c" in (row["method"], row["against"])
    ]
    assert [(row["verdict"], row["seeds"], np.isnan(row["p"])) for row in rest] == [
        ("too few seeds", 2, True)
    ] * 2


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_claim_nothing(seeds: int) -> None:
    row = pairs({"a": np.full(seeds, 0.1), "b": np.full(seeds, 0.9)}).loc[0]
    assert (row["method"], row["verdict"], row["seeds"]) == ("b", "too few seeds", seeds)
    assert row["difference"] == pytest.approx(0.8)
    assert np.isnan([row["p"], row["low"], row["high"]]).all()


def test_without_a_seed_in_common_there_is_no_difference() -> None:
    row = pairs({"a": np.array([0.5, NAN, NAN]), "b": np.array([NAN, 0.6, NAN])}).loc[0]
    assert (row["seeds"], row["verdict"]) == (0, "too few seeds")
    assert np.isnan([row["difference"], row["low"], row["high"], row["p"]]).all()


def test_equal_numbers_are_no_evidence() -> None:
    row = pairs({"a": np.array([0.3, 0.5, 0.4]), "b": np.array([0.3, 0.5, 0.4])}).loc[0]
    assert (row["method"], row["difference"], row["p"], row["verdict"]) == (
        "a",
        0.0,
        1.0,
        "not significant",
    )


@pytest.mark.parametrize(
    ("seeds", "verdict"), [(3, "not significant"), (5, "not significant"), (6, "significant")]
)
def test_the_same_difference_in_every_seed_is_a_sign_test(seeds: int, verdict: str) -> None:
    """t is infinite there; two-sided, S equal signs have the probability 2 / 2**S."""
    a = np.linspace(0.3, 0.6, seeds)
    row = pairs({"a": a, "b": a + 0.1}).loc[0]
    assert (row["method"], row["verdict"]) == ("b", verdict)
    assert row["p"] == pytest.approx(2 * 0.5**seeds)


def test_one_method_against_the_others_is_a_separate_family() -> None:
    table = pairs(VALUES, "c")
    assert table["method"].tolist() == ["c"] * 3 and table["against"].tolist() == ["a", "b", "d"]
    raw = {("c", name): float(stats.ttest_rel(VALUES["c"], VALUES[name]).pvalue) for name in "abd"}
    assert table["p"].tolist() == pytest.approx([by_holm(raw)["c", name] for name in "abd"])
    assert table["difference"].tolist() == pytest.approx(
        [np.mean(VALUES["c"] - VALUES[n]) for n in "abd"]
    )


def test_a_reason_is_given_only_for_its_pairs() -> None:
    values = {**VALUES, "c": np.full(6, NAN)}
    rows = pairs(values, None, {"c": "c: none."}).to_dict(orient="records")
    told = {row["method"] + row["against"]: (row["verdict"], row["why"]) for row in rows}
    assert {pair for pair, (_, why) in told.items() if why} == {"ac", "bc", "cd"}
    assert {verdict for verdict, why in told.values() if why} == {"no score"}
    expected = pairs({name: VALUES[name] for name in "abd"})
    assert sorted(row["p"] for row in rows if not np.isnan(row["p"])) == pytest.approx(
        sorted(expected["p"])
    )


def test_one_method_has_no_pair() -> None:
    table = pairs({"a": np.array([0.1, 0.2, 0.3])})
    assert len(table) == 0 and {"method", "against", "p", "verdict"} <= set(table.columns)


# --- as good as the best


def best(values: dict[str, np.ndarray]) -> set[str]:
    means = {
        name: float(np.nanmean(v)) if np.isfinite(v).any() else None for name, v in values.items()
    }
    return not_worse_than_best(pairs(values).to_dict(orient="records"), means)


def test_the_best_and_methods_not_shown_to_differ_from_it() -> None:
    noise = np.array([0.01, -0.02, 0.03, -0.01, 0.0])
    assert best({"a": 0.5 + noise, "b": 0.8 + noise[::-1], "c": 0.81 + np.roll(noise, 1)}) == {
        "b",
        "c",
    }
    assert best({"a": 0.8 + noise, "b": 0.8 + noise}) == {"a", "b"}


def test_where_nothing_could_be_tested_only_the_highest() -> None:
    assert best({"a": np.array([0.5, 0.6]), "b": np.array([0.5, 0.61])}) == {"b"}
    assert best({"a": np.array([NAN]), "b": np.array([0.2])}) == {"b"}
    assert best({"a": np.array([0.5]), "b": np.array([0.7]), "c": np.array([0.7])}) == {"b", "c"}
    assert best({"a": np.array([NAN]), "b": np.array([NAN])}) == set()


def test_a_highest_mean_from_easy_seeds_does_not_outshine_a_method_that_is_better_in_them() -> None:
    """b lacks no seed, a lacks the hard ones: its mean is higher, though b is better wherever both
    ran."""
    a = np.array([0.80, 0.82, 0.81, NAN, NAN, NAN])
    b = np.array([0.85, 0.871, 0.862, 0.20, 0.21, 0.19])
    assert np.nanmean(a) > np.nanmean(b)
    assert pairs({"a": a, "b": b}).loc[0, "verdict"] == "significant"
    assert best({"a": a, "b": b}) == {"a", "b"}
    # Not significant, b first in the pair.
    assert best({"a": a, "b": b - np.array([0.04, 0.06, 0.04, 0, 0, 0])}) == {
        "a",
        "b",
    }
