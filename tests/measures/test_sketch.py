"""Sketches of long vectors and their second moments, against their definitions written out."""

from __future__ import annotations

import numpy as np

from fedkin.measures.sketch import moment_matrix, second_moments, unit_sketches

RNG = np.random.default_rng(0)


def test_a_sketch_adds_each_number_with_its_sign_to_one_bucket() -> None:
    """The projection of unit vectors is a matrix with one entry of size 1 in each column."""
    columns = unit_sketches(np.eye(40, dtype=np.float32), 6, seed=3)
    assert (np.abs(columns).sum(axis=1) == 1).all() and set(np.unique(columns)) == {-1, 0, 1}
    assert np.abs(columns).sum(axis=0).min() > 0 and columns.min() == -1
    rows = RNG.normal(size=(5, 40)).astype(np.float32)
    expected = rows.astype(np.float64) @ columns
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(unit_sketches(rows, 6, seed=3), expected, rtol=1e-12)
    assert not np.allclose(unit_sketches(rows, 6, seed=4), expected)


def test_cosines_are_kept_on_average() -> None:
    first = RNG.normal(size=500)
    second = 0.8 * first / np.linalg.norm(first) + 0.6 * RNG.normal(size=500) / np.sqrt(500)
    pair = np.stack([first, second]).astype(np.float32)
    exact = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    cosines = [float(np.prod(unit_sketches(pair, 128, seed), axis=0).sum()) for seed in range(60)]
    assert abs(np.mean(cosines) - exact) < 0.03 and np.std(cosines) < 1 / np.sqrt(128)


def test_rows_of_zeros_and_rows_that_are_not_finite() -> None:
    rows = np.array([[0, 0, 0], [1, np.nan, 0], [np.inf, 0, 0]], np.float32)
    sketches = unit_sketches(rows, 2, seed=0)
    assert not sketches[0].any() and np.isnan(sketches[1]).any() and np.isnan(sketches[2]).any()


def test_second_moments_have_the_squared_length_and_give_the_matrix_back() -> None:
    """That length is the sensitivity: without the sqrt(2) a client could add up to 1 and noise
    would be for less."""
    rows = RNG.normal(size=(4, 5))
    moments = second_moments(rows)
    assert moments.shape == (4, 15)
    np.testing.assert_allclose(np.linalg.norm(moments, axis=1), (rows**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(moment_matrix(moments.sum(axis=0), 5), rows.T @ rows, rtol=1e-12)
