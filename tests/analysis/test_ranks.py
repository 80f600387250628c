"""Ranks over settings, against Demsar's worked example (JMLR 7, 2006,
Table 6) and scikit-posthocs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scikit_posthocs
from scipy import stats

from fedkin.analysis.ranks import Ranks, _wilcoxon, rank
from fedkin.analysis.tables import rows_of

# AUC of C4.5 and its variants on 14 data sets; a fourth digit keeps a printed rank where three are
# equal.
DEMSAR = pd.DataFrame(
    {
        "C4.5": [
            0.763,
            0.599,
            0.954,
            0.628,
            0.882,
            0.936,
            0.661,
            0.583,
            0.775,
            1,
            0.940,
            0.619,
            0.972,
            0.957,
        ],
        "C4.5+m": [
            0.768,
            0.591,
            0.971,
            0.661,
            0.888,
            0.931,
            0.668,
            0.583,
            0.838,
            1,
            0.962,
            0.666,
            0.981,
            0.978,
        ],
        "C4.5+cf": [
            0.771,
            0.590,
            0.968,
            0.654,
            0.886,
            0.916,
            0.609,
            0.563,
            0.866,
            1,
            0.965,
            0.614,
            0.9751,
            0.946,
        ],
        "C4.5+m+cf": [
            0.798,
            0.569,
            0.967,
            0.657,
            0.898,
            0.931,
            0.685,
            0.625,
            0.875,
            1,
            0.962,
            0.669,
            0.975,
            0.970,
        ],
    }
)
TIED = 1 - (6 + 6 + 60 + 6) / (14 * (4**3 - 4))  # t**3 - t of each tie, over the most there can be


def test_demsars_table_6() -> None:
    found = rank(DEMSAR)
    assert found.average == pytest.approx(
        {"C4.5": 3.143, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}, abs=5e-4
    )
    # He prints it without the correction for ties.
    assert found.friedman * TIED == pytest.approx(9.28, abs=0.005)
    assert found.p == pytest.approx(stats.chi2.sf(9.28 / TIED, 3), abs=1e-4)
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    assert found.tested and len(found.scores) == 14


def test_nemenyi_is_scikit_posthocs() -> None:
    expected = scikit_posthocs.posthoc_nemenyi_friedman(DEMSAR)
    pairs = rank(DEMSAR).pairs
    assert len(pairs) == 6 and pairs["rank_difference"].is_monotonic_decreasing
    for row in rows_of(pairs):
        assert row["p_nemenyi"] == pytest.approx(
            float(expected.loc[row["method"], row["against"]]), abs=1e-6
        )
        assert row["rank_difference"] >= 0
    assert min(pairs["p_nemenyi"]) > 0.05  # no difference reaches 1.25: the largest is 1.179


def test_wilcoxon_is_adjusted_by_holm() -> None:
    pairs = rank(DEMSAR).pairs
    gains = [np.round(DEMSAR[row["method"]] - DEMSAR[row["against"]], 12) for row in rows_of(pairs)]
    raw = [float(np.asarray(stats.wilcoxon(gain, zero_method="pratt"))[1]) for gain in gains]
    before = 0.0
    expected = dict[int, float]()
    for i, place in enumerate(np.argsort(raw)):
        before = expected[int(place)] = min(1.0, max(before, raw[place] * (6 - i)))
    assert pairs["p_wilcoxon"].tolist() == pytest.approx([expected[i] for i in range(6)])


@pytest.mark.parametrize("count", range(2, 15))
def test_wilcoxon_is_scipys_to_the_bit(count: int) -> None:
    """With ties and zeros, whose p is of all signs up to 13 differences; with neither; above 13."""
    rng = np.random.default_rng(count)
    cases = [
        rng.integers(-3, 4, count) / 7,
        rng.integers(1, 3, count) / 7,
        rng.integers(-9, 10, count) * 1.0,
        rng.normal(size=count),
        np.where(np.arange(count) == 1, 0.0, rng.normal(size=count)),
        np.where(np.arange(count) == 1, 5.0, np.zeros(count)),
        np.where(np.arange(count) == 1, np.nan, rng.integers(-3, 4, count)),
    ]
    for case in cases:
        rounded = np.round(case, 12)
        expected = 1.0
        if rounded.any():
            expected = float(np.asarray(stats.wilcoxon(rounded, zero_method="pratt"))[1])
        np.testing.assert_array_equal(_wilcoxon(case), expected)


def test_wilcoxon_of_ties_by_hand() -> None:
    """Ranks 2, 2, 2 and 4. Of the sixteen sums of positive ranks 0, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6,
    6, 8, 8, 8 and 10, four are at least 8. A difference of 0 has a rank, but no sign."""
    assert _wilcoxon(np.array([0.1, 0.1, -0.1, 0.3])) == 2 * 4 / 16
    # Ranks 1, 2 and 3 of which the first has no sign: one of the sums 0, 2, 3 and 5 is at least 5.
    assert _wilcoxon(np.array([0.0, 0.1, 0.2])) == 2 * 1 / 4


def test_methods_that_differ_are_named() -> None:
    rows = np.arange(12)
    apart = pd.DataFrame({"a": 0.9 - rows / 100, "b": 0.85 - rows / 100, "c": 0.2 + rows / 100})
    found = rank(apart)
    assert found.average == {"a": 1.0, "b": 2.0, "c": 3.0}
    # 2.343 * sqrt(3 * 4 / (6 * 12)): his Table 5.
    assert found.critical_difference == pytest.approx(0.957, abs=5e-4)
    told = found.table().set_index("method")["differs_from"].to_dict()
    assert told == {"a": "b; c", "b": "a; c", "c": "a; b"}
    fewer = rank(apart.head(6)).table().set_index("method")["differs_from"].to_dict()
    assert fewer == {"a": "c", "b": "", "c": "a"}  # 1.353
    latex = found.latex()
    assert latex.count("&") == 4 * 2 and "chi-square 24.00" in latex
    # The last column has names of methods.
    assert r"\begin{tabular}{lrl}" in latex


def test_settings_that_lack_a_score_are_left_out() -> None:
    holes = pd.DataFrame({"a": [0.9, np.nan, 0.8], "b": [0.5, 0.9, 0.7], "c": [0.1, 0.1, 0.1]})
    assert rank(holes).average == {"a": 1.0, "b": 2.0, "c": 3.0} and len(rank(holes).scores) == 2


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (6, 2), (6, 1)])
def test_too_few_settings_or_methods_test_nothing(shape: tuple[int, int]) -> None:
    found = rank(
        pd.DataFrame(
            np.arange(np.prod(shape), dtype=float).reshape(shape), columns=list("abc")[: shape[1]]
        )
    )
    assert np.isnan([found.friedman, found.p, found.critical_difference]).all() and not found.tested
    assert found.pairs[["p_nemenyi", "p_wilcoxon"]].isna().to_numpy().all()
    assert json.loads(json.dumps(found.summary(), allow_nan=False))["p"] is None


def test_methods_that_never_differ() -> None:
    found = rank(pd.DataFrame(np.full((6, 3), 0.5), columns=list("abc")))
    assert (found.friedman, found.p) == (0.0, 1.0)
    assert found.pairs["p_wilcoxon"].tolist() == [1.0] * 3 and set(found.average.values()) == {2.0}


def test_no_pair_is_named_where_friedman_rejects_nothing() -> None:
    """Nemenyi alone would name a pair here."""
    scores = pd.DataFrame(
        {
            "a": [3, 3, 3, 3, 2, 3, 1, 3, 2, 3],
            "b": [2, 1, 2, 2, 3, 1, 3, 2, 3, 1],
            "c": [1, 2, 1, 1, 1, 2, 2, 1, 1, 2],
        }
    )
    ranks = rank(scores)
    averages = list(ranks.average.values())
    spread = max(averages) - min(averages)
    likely = Ranks(
        scores=ranks.scores,
        average=ranks.average,
        friedman=ranks.friedman,
        p=0.2,
        critical_difference=spread - 0.1,
        pairs=ranks.pairs,
    )
    assert likely.table()["differs_from"].tolist() == ["", "", ""]
    assert "No pair of methods is significantly different." in likely.notes()
    sure = Ranks(
        scores=ranks.scores,
        average=ranks.average,
        friedman=ranks.friedman,
        p=0.01,
        critical_difference=spread - 0.1,
        pairs=ranks.pairs,
    )
    assert sure.table()["differs_from"].tolist() != ["", "", ""]


@pytest.mark.parametrize(("settings", "needed"), [(6, True), (7, False)])
def test_wilcoxons_least_number_of_settings_is_named(settings: int, needed: bool) -> None:
    scores = pd.DataFrame({"a": [3.0] * settings, "b": [2.0] * settings, "c": [1.0] * settings})
    ranks = rank(scores)
    assert (
        any("cannot be significant with fewer than 7 settings" in line for line in ranks.notes())
        == needed
    )
    assert (3 * 2 / 2**settings > 0.05) == needed  # the least p, all signs alike, of three pairs
