"""The fit of a client's own linear model, pulled to a shared one."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.pulled_fit import held_out_losses, pulled_fits


def squares(y: np.ndarray):
    return lambda scores: (y - scores[:, 0]) ** 2 / 2


def test_an_intercept_is_the_shrunk_mean_of_the_residuals() -> None:
    """Residuals 2, 4, 6 and k = 3 samples: 3 / (3 + 3) of the mean 4."""
    y = np.array([3.0, 5.0, 7.0])
    base = np.ones((3, 1))
    fits = pulled_fits(np.ones((3, 1)), base, squares(y), [3.0, 0.0])
    np.testing.assert_allclose(fits[:, 0, 0], [2.0, 4.0], atol=1e-6)


def test_ridge_regression_towards_a_model_that_is_not_zero() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(40, 3))
    shared = np.array([1.0, -2.0, 0.5])
    y = design @ np.array([2.0, -2.0, 0.0]) + rng.normal(size=40)
    (fit,) = pulled_fits(design, (design @ shared)[:, None], squares(y), [5.0])
    residual = y - design @ shared
    expected = np.linalg.solve(design.T @ design + 5 * np.eye(3), design.T @ residual)
    np.testing.assert_allclose(fit[:, 0], expected, atol=1e-6)


def test_the_log_intercept_of_counts_makes_sums_agree() -> None:
    """Without a pull, the sum of predicted means is the sum of labels."""
    y = np.array([0.0, 3.0, 9.0, 4.0])
    base = np.log([[1.0], [2.0], [3.0], [2.0]])

    def poisson(scores: np.ndarray) -> np.ndarray:
        return np.exp(scores[:, 0]) - y * scores[:, 0]

    (fit,) = pulled_fits(np.ones((4, 1)), base, poisson, [0.0])
    assert fit[0, 0] == pytest.approx(np.log(16 / 8), abs=1e-6)


def test_two_and_many_outputs_reach_a_gradient_of_zero() -> None:
    """Classes with 2 outputs (Newton) and 5 (L-BFGS): sum of z (p - onehot) = - k D."""
    rng = np.random.default_rng(1)
    for classes in (2, 5):
        design = np.concatenate([rng.normal(size=(60, 2)), np.ones((60, 1))], axis=1)
        y = rng.integers(0, classes, 60)

        def loss(scores: np.ndarray, y: np.ndarray = y) -> np.ndarray:
            return np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]

        (fit,) = pulled_fits(design, np.zeros((60, classes)), loss, [2.0])
        odds = np.exp(design @ fit)
        wrong = odds / odds.sum(axis=1, keepdims=True) - np.eye(classes)[y]
        np.testing.assert_allclose(design.T @ wrong, -2.0 * fit, atol=1e-3)


def test_the_median_has_no_curvature() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    (fit,) = pulled_fits(np.ones((5, 1)), np.zeros((5, 1)), lambda s: np.abs(y - s[:, 0]), [0.001])
    assert fit[0, 0] == pytest.approx(2.0, abs=0.2)


def test_held_out_samples_are_not_fitted() -> None:
    """Two folds of one sample each, residuals 1 and 5: each is predicted by the other, so that the
    loss without a pull is (5 - 1)^2 / 2 twice; with an endless pull it is (1 + 25) / 2."""
    y = np.array([1.0, 5.0])
    losses = held_out_losses(
        np.ones((2, 1)),
        np.zeros((2, 1)),
        lambda rows: squares(y[rows]),
        [0.0, 1e9],
        np.array([0, 1]),
    )
    np.testing.assert_allclose(losses, [16.0, 13.0], rtol=1e-5)


def test_no_samples_and_negative_strengths() -> None:
    assert not pulled_fits(np.ones((0, 2)), np.ones((0, 1)), squares(np.ones(0)), [1.0]).any()
    with pytest.raises(MethodError, match="strength"):
        pulled_fits(np.ones((1, 1)), np.ones((1, 1)), squares(np.ones(1)), [-1.0])
