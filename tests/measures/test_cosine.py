"""Cosine similarity and its map to [0, 1]."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkin.measures.cosine import cosine, dissimilarity

A = np.array([[1, 0], [3, 4]], np.float32)
B = np.array([[2, 0], [0, 5], [-1, 0]], np.float32)


def test_cosine_by_hand() -> None:
    np.testing.assert_allclose(cosine(A, B), [[1, 0, -1], [0.6, 0.8, -0.6]], atol=1e-6)


def test_dissimilarity_by_hand() -> None:
    np.testing.assert_allclose(dissimilarity(A, B), [[0, 0.5, 1], [0.2, 0.1, 0.8]], atol=1e-6)


def test_a_zero_vector_is_like_nothing() -> None:
    zero = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(cosine(zero, B), [[0, 0, 0]])
    np.testing.assert_array_equal(cosine(A, zero), [[0], [0]])
    np.testing.assert_array_equal(dissimilarity(zero, zero), [[0.5]])


def test_small_updates_keep_their_direction() -> None:
    """Late in training updates are tiny."""
    np.testing.assert_allclose(cosine(A * np.float32(1e-12), B), cosine(A, B), atol=1e-6)


@pytest.mark.parametrize("scale", [1e25, 1e-30])
def test_rows_whose_squares_leave_float32_keep_their_direction(scale: float) -> None:
    """The squares, 1e50 and 1e-60, are more and less than a float32 can be."""
    far = A * np.float32(scale)
    np.testing.assert_allclose(cosine(far, B), [[1, 0, -1], [0.6, 0.8, -0.6]], atol=1e-6)
    np.testing.assert_allclose(cosine(B, far), [[1, 0.6], [0, 0.8], [-1, -0.6]], atol=1e-6)
    np.testing.assert_allclose(cosine(far, far), [[1, 0.6], [0.6, 1]], atol=1e-6)


vectors = hnp.arrays(
    np.float32, (3, 4), elements=st.floats(-10, 10, width=32).map(lambda v: round(v, 2))
)


@given(vectors, vectors, st.floats(0.125, 8))
def test_laws(a: np.ndarray, b: np.ndarray, scale: float) -> None:
    similarity = cosine(a, b)
    assert similarity.shape == (3, 3)
    assert np.all(np.abs(similarity) <= 1 + 1e-6)
    np.testing.assert_allclose(cosine(b, a), similarity.T, atol=1e-5)
    np.testing.assert_allclose(cosine(a * np.float32(scale), b), similarity, atol=1e-5)
    np.testing.assert_allclose(cosine(-a, b), -similarity, atol=1e-5)
    np.testing.assert_allclose(dissimilarity(a, b), (1 - similarity) / 2, atol=1e-6)
