"""Hard EM in two clusters: PANM's oracle vectors, corner cases by hand, and a slow reference on
sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedkin.clustering.gaussian_mixture import split_two_gaussians

MAX_STEPS = 100


def of(values: Any, initial: Any, mask: Any = None, dtype: Any = np.float64) -> list[int]:
    """H of one row, as indices. ``started`` and ``there`` are indices too."""
    row = np.asarray(values, dtype)[None]
    marks = [np.isin(np.arange(row.shape[1]), list(chosen)) for chosen in (initial, mask or ())]
    there_row = np.ones(row.shape, bool) if mask is None else marks[1][None]
    return np.flatnonzero(split_two_gaussians(row, marks[0][None], there_row)[0]).tolist()


# --- the slow reference: the poster's equations, one number at a time


def density(y: float, mean: float, deviation: float) -> float:
    """log phi(y | mean, deviation)."""
    return -0.5 * math.log(2 * math.pi) - math.log(deviation) - 0.5 * ((y - mean) / deviation) ** 2


def fitted(values: list[float], total: int, spread: float) -> tuple[float, float, float]:
    """mu, sigma and log beta of one component. Without variance, sigma is 5% of the row's
    spread."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((y - mean) ** 2 for y in values) / len(values))
    return (
        mean,
        deviation if max(values) > min(values) else 0.05 * spread,
        math.log(len(values) / total),
    )


def slow(values: list[float], initial: set[int]) -> tuple[set[int], float]:
    """H, and the narrowest decision on the way to it (difference of log beta phi)."""
    everybody = set(range(len(values)))
    if not initial or initial == everybody or max(values) == min(values):
        return initial, math.inf
    kind = initial
    margin = math.inf
    spread = max(values) - min(values)
    for _ in range(MAX_STEPS):
        fits = [
            fitted([values[j] for j in c], len(values), spread) for c in (kind, everybody - kind)
        ]
        # Log of beta_0 phi_0 / (beta_1 phi_1).
        ahead = [
            fits[0][2] + density(y, *fits[0][:2]) - fits[1][2] - density(y, *fits[1][:2])
            for y in values
        ]
        margin = min(margin, *map(abs, ahead))
        before = kind
        kind = {j for j in everybody if ahead[j] > 0}
        if not kind:
            return initial, margin
        if kind == everybody:
            return everybody, margin
        if kind == before:
            break
    means = [math.fsum(values[j] for j in c) / len(c) for c in (kind, everybody - kind)]
    margin = min(margin, abs(means[0] - means[1]) / spread)
    return (kind if means[0] >= means[1] else everybody - kind), margin


# --- the oracle


CONVERGED = ("clear two modes", "overlap", "grad similarities negative")


@pytest.fixture
def vectors(oracle: Callable[[str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in oracle("panm")["hnm"]}


@pytest.mark.parametrize("name", CONVERGED)
def test_oracle(vectors: dict[str, dict[str, Any]], name: str) -> None:
    """Members of M are S first and then C;
    neither the poster's printed start nor its complement."""
    case = vectors[name]
    S = case["S_similarities"]
    C = case["C_similarities"]
    assert of(S + C, range(len(S))) == case["H_indices_in_M"] != case["literal_poster_init_H"]
    assert slow(S + C, set(range(len(S))))[0] == set(case["H_indices_in_M"])


def test_oracle_of_a_single_start(vectors: dict[str, dict[str, Any]]) -> None:
    """0.8 alone has no variance and takes 0.05 * 0.7 = 0.035. For 0.79: .25 / .035 * exp(-.0408) =
    6.86 against .75 / .3044 * exp(-.982) = 0.92, so it joins; 0.1 and 0.2 are twenty deviations
    away."""
    case = vectors["single S element (zero variance)"]
    assert case["H_indices_in_M"] is None
    assert of(case["S_similarities"] + case["C_similarities"], [0]) == [0, 3]


def test_all_oracle_vectors_at_once(vectors: dict[str, dict[str, Any]]) -> None:
    """Rows of different length side by side, padded with NaN."""
    cases = [vectors[name] for name in CONVERGED]
    similar = np.full((3, 12), np.nan)
    initial = np.zeros((3, 12), bool)
    for row, case in enumerate(cases):
        values = case["S_similarities"] + case["C_similarities"]
        similar[row, : len(values)] = values
        initial[row, : len(case["S_similarities"])] = True
    found = split_two_gaussians(similar, initial, ~np.isnan(similar))
    assert [np.flatnonzero(row).tolist() for row in found] == [
        case["H_indices_in_M"] for case in cases
    ]


# --- corner cases


def test_without_a_start_there_is_no_answer() -> None:
    """The documented reason for an empty H: the caller begins again."""
    assert of([0.1, 0.9, 0.8], []) == []
    assert of([0.1, 0.9, 0.8], [1], mask=[0, 2]) == []


def test_empty_rows_have_no_answer() -> None:
    assert (
        split_two_gaussians(
            np.full((2, 3), np.nan), np.ones((2, 3), bool), np.zeros((2, 3), bool)
        ).sum()
        == 0
    )


def test_no_rows() -> None:
    assert split_two_gaussians(
        np.zeros((0, 4)), np.zeros((0, 4), bool), np.zeros((0, 4), bool)
    ).shape == (0, 4)


def test_no_candidates() -> None:
    """Nothing to compare with: two modes in S are left together."""
    assert of([0.1, 0.9, 0.92], [0, 1, 2]) == [0, 1, 2]
    assert of([0.1, 0.9, 0.92, 5.0], [0, 1], mask=[0, 1]) == [0, 1]


@pytest.mark.parametrize("value", [0.0, 0.1, -0.3, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_equal(value: float, dtype: Any) -> None:
    assert of([value] * 7, [1, 4], dtype=dtype) == [1, 4]


def test_all_equal_among_those_there() -> None:
    assert of([0.1, 0.9, 0.1, 0.1], [0], mask=[0, 2, 3]) == [0]


def test_the_same_kind_loses_everybody() -> None:
    """S = {3, 9}: mean 6, sigma 3, beta .4; C = {0, 10, 5}: mean 5, sigma 4.08, beta .6. Even where
    S is nearest, .4 / 3 * exp(-.5) = .081 at 3 is less than .6 / 4.08 * exp(-.12) = .130, so all go
    to C: S is the answer."""
    assert of([3, 0, 10, 5, 9], [0, 4]) == [0, 4]


def test_the_start_is_the_answer_though_its_mean_is_lower() -> None:
    """S = {0, -3}: mean -1.5, sigma 1.5, beta .4; C = {0, -3, -1}: mean -1.33, sigma 1.25, beta .6.
    At 0 .4 / 1.5 * exp(-.5) = .162 is less than .6 / 1.25 * exp(-.57) = .272, at -3 and -1 too:
    no client is left to swap."""
    assert of([0, 0, -3, -3, -1], [0, 2]) == [0, 2]


def test_no_candidates_of_lower_mean() -> None:
    assert of([-5.0, -6.0, 9.0], [0, 1], mask=[0, 1]) == [0, 1]


def test_the_other_kind_loses_everybody() -> None:
    """S = {8, 1, 4}: mean 4.33, sigma 2.87, beta .6; C = {2, 8}: mean 5, sigma 3, beta .4. All go
    to S."""
    assert of([8, 2, 1, 8, 4], [0, 2, 4]) == [0, 1, 2, 3, 4]


def test_the_lower_mean_is_not_the_same_kind() -> None:
    """S = {.1, .12, .11} against C = {.8, .82, .81} stays as it began, and is turned over at the
    end."""
    assert of([0.1, 0.12, 0.11, 0.8, 0.82, 0.81], [0, 1, 2]) == [3, 4, 5]


def test_an_outlier_in_the_start_is_thrown_out() -> None:
    """S = {.8, .82, .81, .1}: mean .6325, sigma .307; C = {.12, .09, .11, .1}: mean .105, sigma
    .011. So .1 is C's."""
    assert of([0.8, 0.82, 0.81, 0.1, 0.12, 0.09, 0.11, 0.1], [0, 1, 2, 3]) == [0, 1, 2]


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_two_values(scale: float) -> None:
    """Both deviations are 5 % of the spread: each value keeps to its own, and the higher is of the
    same cluster."""
    assert of([0.2 * scale, 0.9 * scale], [1]) == [1]
    assert of([0.9 * scale, 0.2 * scale], [1]) == [0]


def test_a_tie_is_another_kind() -> None:
    """S = {-1, 1}, C = {-1, 1}: the components are equal, no value is strictly more likely in the
    first. So it loses everybody, and S is the answer. Counting ties for the first would give all
    four."""
    assert of([-1, 1, -1, 1], [0, 1]) == [0, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("close", [0.101, 0.09])
def test_equal_values_have_no_variance_though_their_mean_rounds(close: float, dtype: Any) -> None:
    """The mean of three times 0.1 is not 0.1 in floats. Their deviation follows the rule (.05 *
    .81), not 1e-17: at ``close`` (z = .02, .25) 3/6 / .04 beats a C of mean .6 and sigma .36. Then
    C = {.8, .9} has the higher mean."""
    assert of([0.1, 0.1, 0.1, close, 0.9, 0.8], [0, 1, 2], dtype=dtype) == [4, 5]


def test_equal_values_of_the_other_kind() -> None:
    """C = {.1, .1, .1} takes .05 * .9 = .045, S = {.9, 1, .12} has mean .673 and sigma .39: .12 is
    C's."""
    assert of([0.9, 1.0, 0.12, 0.1, 0.1, 0.1], [0, 1, 2]) == [0, 1]


def test_masked_values_do_not_matter() -> None:
    values = np.array([[0.82, 0.79, 0.12, 0.81, 0.08, 0.15]])
    mask = np.array([[1, 1, 1, 0, 1, 1]], bool)
    initial = np.array([[1, 1, 0, 1, 0, 0]], bool)
    expected = [[True, True, False, False, False, False]]
    for hidden in (0.81, 1e9, -1e9, np.nan, np.inf, -np.inf):
        values[0, 3] = hidden
        np.testing.assert_array_equal(split_two_gaussians(values, initial, mask), expected)


def test_inputs_are_left_alone() -> None:
    arrays = (
        np.array([[0.9, 0.1, np.nan]]),
        np.array([[True, False, True]]),
        np.array([[True, True, False]]),
    )
    for array in arrays:
        array.flags.writeable = False
    np.testing.assert_array_equal(split_two_gaussians(*arrays), [[True, False, False]])


# --- rules for any row

values = st.floats(-100, 100, width=32)
coarse = st.integers(-4, 4).map(float)


@st.composite
def rows(
    draw: st.DrawFn, numbers: st.SearchStrategy[float] = values | coarse
) -> tuple[list[float], set[int]]:
    row = draw(st.lists(numbers, min_size=1, max_size=12))
    return row, draw(st.sets(st.integers(0, len(row) - 1)))


@given(rows())
def test_it_stops_and_is_not_empty_without_a_reason(case: tuple[list[float], set[int]]) -> None:
    """Ties, equal values and denormal spreads among them. H is empty where nothing started, and
    only there."""
    row, initial = case
    found = of(row, initial)
    assert bool(found) == bool(initial)
    if initial == set(range(len(row))) or len(set(row)) == 1:
        assert set(found) == initial


def test_tiny_and_huge_spreads() -> None:
    """Two clear modes, in units so small or large that squares leave float64's range: nothing may
    overflow."""
    row = np.array([0.82, 0.79, 0.85, 0.12, 0.81, 0.08, 0.15])
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        assert of(row * scale, [0, 1, 2]) == [0, 1, 2, 4]


@given(rows())
def test_it_equals_the_slow_reference(case: tuple[list[float], set[int]]) -> None:
    row, initial = case
    expected, margin = slow(row, initial)
    assume(margin > 1e-6)
    assert set(of(row, initial)) == expected


@given(rows(), st.floats(1e-3, 1e3), st.floats(-10, 10))
def test_units_do_not_matter(
    case: tuple[list[float], set[int]], factor: float, shift: float
) -> None:
    """Invariant under y -> a y + b, with b in spreads of the row."""
    row, initial = case
    spread = max(row) - min(row)
    assume(slow(row, initial)[1] > 1e-6 and (spread == 0 or spread > 1e-3 * max(map(abs, row))))
    moved = [factor * y + shift * factor * spread for y in row]
    assume(len(set(moved)) == len(set(row)))
    assert of(moved, initial) == of(row, initial)


@given(rows(), st.randoms(use_true_random=False))
def test_the_order_of_values_does_not_matter(
    case: tuple[list[float], set[int]], random: Any
) -> None:
    row, initial = case
    assume(slow(row, initial)[1] > 1e-6)
    order = random.sample(range(len(row)), len(row))
    found = of([row[j] for j in order], [order.index(j) for j in initial])
    assert sorted(order[j] for j in found) == of(row, initial)


@given(st.lists(rows(coarse), min_size=1, max_size=5), st.integers(0, 1000))
def test_rows_are_independent(cases: list[tuple[list[float], set[int]]], seed: int) -> None:
    """Rows that need one step next to rows that need many, each with its own missing values: the
    same bits as each row alone."""
    width = max(len(row) for row, _ in cases)
    # Noise where values are missing.
    similar = np.random.default_rng(seed).normal(scale=50, size=(len(cases), width))
    initial = np.ones(similar.shape, bool)
    mask = np.zeros(similar.shape, bool)
    for i, (row, chosen) in enumerate(cases):
        similar[i, : len(row)] = row
        mask[i, : len(row)] = True
        initial[i, : len(row)] = np.isin(np.arange(len(row)), list(chosen))
    found = split_two_gaussians(similar, initial, mask)
    for i in range(len(cases)):
        alone = split_two_gaussians(similar[i : i + 1], initial[i : i + 1], mask[i : i + 1])
        np.testing.assert_array_equal(found[i : i + 1], alone)
        assert not found[i][~mask[i]].any()
