"""Platt scaling from counts, against scikit-learn and SciPy on the samples themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from sklearn.linear_model import LogisticRegression

from fedkin.core.errors import MethodError, ModelError
from fedkin.measures.calibration import (
    BINS,
    CENTRES,
    EDGES,
    NEGATIVE,
    POSITIVE,
    fold_scale,
    platt_scale,
    score_histogram,
    score_histograms,
)


def drawn(
    seed: int, n: int, a: float, b: float, spread: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and whether each is positive: it is so with probability sigma(a s + b)."""
    rng = np.random.default_rng(seed)
    scores = spread * rng.normal(size=n)
    return scores, rng.random(n) < expit(a * scores + b)


def loss(scale: np.ndarray, counts: np.ndarray) -> float:
    """Cross entropy with Platt's targets, bin by bin as it is written (Lin, Lin & Weng, eq. 5)."""
    positives, negatives = counts.sum(axis=1)
    scores = scale[0] * CENTRES + scale[1]
    total = 0.0
    for target, row in (
        (1 / (negatives + 2), NEGATIVE),
        ((positives + 1) / (positives + 2), POSITIVE),
    ):
        entropy = target * log_expit(scores) + (1 - target) * log_expit(-scores)
        total -= float(counts[row] @ entropy)
    return total


def test_edges() -> None:
    np.testing.assert_array_equal(np.diff(EDGES), np.full(64, 0.5))
    assert (EDGES[0], EDGES[-1], CENTRES[0], BINS) == (-16, 16, -15.75, 64)


def test_histogram_by_hand() -> None:
    scores = np.array([0.0, 0.49, 0.5, -0.01, -16.0, -99.0, 16.0, np.inf, 15.9, -np.inf])
    positive = np.array([True, False, True, True, False, False, True, True, False, True])
    expected = np.zeros((2, 64), int)
    expected[POSITIVE, [32, 33, 31, 0]] = 1
    expected[POSITIVE, 63] = 2
    expected[NEGATIVE, [32, 63]] = 1
    expected[NEGATIVE, 0] = 2
    np.testing.assert_array_equal(score_histogram(scores, positive), expected)


def test_histogram_without_samples() -> None:
    np.testing.assert_array_equal(
        score_histogram(np.zeros(0), np.zeros(0, bool)), np.zeros((2, 64))
    )


def test_histograms_of_groups_are_those_of_each_group() -> None:
    scores, positive = drawn(3, 200, 1, 0, spread=10)
    sizes = np.array([0, 150, 0, 50])
    expected = [
        score_histogram(of_group, is_positive)
        for of_group, is_positive in zip(
            np.split(scores, np.cumsum(sizes)[:-1]),
            np.split(positive, np.cumsum(sizes)[:-1]),
            strict=True,
        )
    ]
    np.testing.assert_array_equal(score_histograms(scores, positive, sizes), expected)
    assert score_histograms(scores[:0], positive[:0], sizes[:0]).shape == (0, 2, 64)


@given(st.integers(0, 10_000), st.integers(0, 200))
def test_histograms_of_clients_add_up(seed: int, first: int) -> None:
    scores, positive = drawn(seed, 200, 1, 0, spread=10)
    parts = score_histogram(scores[:first], positive[:first]) + score_histogram(
        scores[first:], positive[first:]
    )
    np.testing.assert_array_equal(parts, score_histogram(scores, positive))
    counts = [
        np.histogram(np.clip(scores[some], -15.99, 15.99), EDGES)[0]
        for some in (positive, ~positive)
    ]
    np.testing.assert_array_equal(parts, counts)


@given(
    st.integers(0, 10_000),
    st.integers(5, 500),
    st.floats(-2, 3),
    st.floats(-2, 2),
    st.sampled_from([0.5, 2.0, 8.0]),
)
def test_against_scipy(seed: int, n: int, a: float, b: float, spread: float) -> None:
    counts = score_histogram(*drawn(seed=seed, n=n, a=a, b=b, spread=spread))
    result = platt_scale(counts)
    if counts.sum(axis=1).all():
        best = minimize(
            loss, np.zeros(2), args=(counts,), method="Nelder-Mead", options={"fatol": 1e-12}
        ).fun
        assert loss(result, counts) <= best + 1e-9 * n


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.5, 1.0), (2.0, -3.0), (-1.0, 0.5)])
def test_against_logistic_regression_on_the_bins(a: float, b: float) -> None:
    """Platt's targets are samples that count in part for the other class."""
    counts = score_histogram(*drawn(0, 3000, a, b))
    positives, negatives = counts.sum(axis=1)
    target = np.array([(positives + 1) / (positives + 2), 1 / (negatives + 2)])
    weights = np.concatenate([target @ counts, (1 - target) @ counts])
    x = np.concatenate([CENTRES, CENTRES])[weights > 0, None]
    y = np.repeat([1, 0], BINS)[weights > 0]
    fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        x, y, sample_weight=weights[weights > 0]
    )
    np.testing.assert_allclose(
        platt_scale(counts), [fit.coef_[0, 0], fit.intercept_[0]], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.5, 1.0), (1.5, -2.0), (-1.0, 0.5)])
def test_the_scale_that_the_samples_were_drawn_with(a: float, b: float) -> None:
    """Scores that are calibrated already are left at about (1, 0)."""
    np.testing.assert_allclose(
        platt_scale(score_histogram(*drawn(1, 100_000, a, b))), [a, b], atol=0.05
    )


def test_narrow_scores_are_flattened_by_the_bins() -> None:
    a, _ = platt_scale(score_histogram(*drawn(1, 400_000, 1, 0, spread=0.5)))
    # 0.25 / (0.25 + 0.5^2 / 12) = 0.92 of it: the variance, and that within a bin.
    assert 0.88 < a < 0.94


def test_a_detector_without_an_error_has_a_finite_scale() -> None:
    """All positives at 4.25 and negatives at -4.25: the targets 11/12 and 1/22 are met exactly."""
    counts = np.zeros((2, 64), int)
    counts[POSITIVE, 40] = 10
    counts[NEGATIVE, 23] = 20
    high = logit(11 / 12)
    low = logit(1 / 22)
    np.testing.assert_allclose(
        platt_scale(counts), [(high - low) / 8.5, (high + low) / 2], rtol=1e-6
    )


def test_a_whole_newton_step_would_be_too_long() -> None:
    """A hundred positives at one score and a negative at another: the targets 101/102 and 1/3 are
    met exactly."""
    counts = np.zeros((2, 64), int)
    counts[POSITIVE, 10] = 100
    counts[NEGATIVE, 52] = 1
    np.testing.assert_allclose(
        expit(platt_scale(counts) @ [CENTRES[[10, 52]], [1, 1]]), [101 / 102, 1 / 3], rtol=1e-6
    )


def test_many_samples_without_an_error() -> None:
    counts = np.zeros((2, 64), int)
    counts[POSITIVE, 63] = 10**7
    counts[NEGATIVE, 0] = 10**7
    np.testing.assert_allclose(
        platt_scale(counts), [logit((10**7 + 1) / (10**7 + 2)) / 15.75, 0], rtol=1e-3, atol=1e-3
    )


def test_scores_in_one_bin_say_how_frequent_positives_are() -> None:
    counts = np.zeros((2, 64), int)
    counts[:, 40] = [30, 10]
    a, b = platt_scale(counts)
    target = (30 * 31 / 32 + 10 * 1 / 12) / 40
    assert expit(a * CENTRES[40] + b) == pytest.approx(target, abs=1e-6)


def test_detectors_that_cannot_be_calibrated_stay() -> None:
    counts = np.zeros((3, 2, 64), int)
    counts[0, POSITIVE, 10:20] = 7
    counts[1, NEGATIVE, 10:20] = 7
    np.testing.assert_array_equal(platt_scale(counts), [[1, 0]] * 3)
    np.testing.assert_array_equal(platt_scale(counts[2]), [1, 0])
    assert platt_scale(counts[:0]).shape == (0, 2)


def test_detectors_are_calibrated_each_on_its_own() -> None:
    counts = np.stack(
        [
            score_histogram(*drawn(seed=s, n=40 * 10**s, a=s - 1.0, b=1.0, spread=2.0**s))
            for s in range(4)
        ]
    )
    counts[2, NEGATIVE] = 0
    np.testing.assert_allclose(
        platt_scale(counts), [platt_scale(each) for each in counts], rtol=1e-6, atol=1e-8
    )


def test_a_scale_is_folded_into_the_last_layer() -> None:
    """Two detectors: 3 parameters of a body, the head's 4 weights and its bias."""
    rng = np.random.default_rng(0)
    models = rng.normal(size=(2, 8)).astype(np.float32)
    before = models.copy()
    scale = np.array([[2.0, -1.0], [0.5, 3.0]])
    after = fold_scale(models, slice(3, 8), slice(7, 8), scale)
    hidden = rng.normal(size=(10, 4))
    scores, rescaled = (hidden @ m[:, 3:7].T + m[:, 7] for m in (before, after))
    np.testing.assert_allclose(rescaled, scores * scale[:, 0] + scale[:, 1], rtol=1e-5)
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    np.testing.assert_array_equal(models, before)
    assert after.dtype == np.float32


@pytest.mark.parametrize(
    ("head", "bias"),
    [(slice(3, 7), slice(7, 8)), (slice(3, 9), slice(8, 9)), (slice(3, 8), slice(2, 3))],
)
def test_a_bias_that_is_not_the_heads(head: slice, bias: slice) -> None:
    with pytest.raises(ModelError, match="part of the head"):
        fold_scale(np.zeros((1, 8)), head, bias, np.ones((1, 2)))


def test_values_that_cannot_be_counted() -> None:
    with pytest.raises(MethodError, match="2 are NaN, such as the score of sample 1"):
        score_histogram(np.array([0, np.nan, np.nan]), np.zeros(3, bool))
    with pytest.raises(MethodError, match="at least 0, got -1"):
        platt_scale(np.full((2, 64), -1))
