"""Inner products over more columns than one block holds, and values that may be read from them."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures import gram as module
from fedkin.measures.gram import float64_blocks, gram, leading_eigenpairs


def test_inner_products_by_hand() -> None:
    np.testing.assert_array_equal(
        gram(np.array([[1, 2, 2], [0, 3, -1]], np.float32)), [[9, 4], [4, 10]]
    )


@pytest.mark.parametrize("columns", [255, 256, 257, 1000])
def test_blocks_are_all_the_columns_once(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 1)
    rows = np.arange(2 * columns, dtype=np.float32).reshape(2, columns)
    blocks = list(float64_blocks(rows))
    assert all(block.shape[1] <= 256 for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks, axis=1), rows)
    np.testing.assert_array_equal(gram(rows), np.inner(rows.astype(float), rows.astype(float)))


def test_values_that_float32_would_lose() -> None:
    """4096^2 + 1 is no float32."""
    result = gram(np.array([[4096, 1], [4096, 0]], np.float32))
    np.testing.assert_array_equal(result, [[2**24 + 1, 2**24], [2**24, 2**24]])


def test_leading_directions_by_hand() -> None:
    """Orthogonal updates of lengths 1, 5 and 2: each is a direction, the longest first."""
    values, vectors = leading_eigenpairs(np.array([[1.0, 0, 0], [0, 25, 0], [0, 0, 4]]), 2)
    np.testing.assert_allclose(values, [25, 4])
    np.testing.assert_allclose(np.abs(vectors), [[0, 0], [1, 0], [0, 1]])


def test_a_direction_that_is_not_there_is_zero() -> None:
    row = np.random.default_rng(0).normal(size=30)
    values, vectors = leading_eigenpairs(np.outer(row, row), 3)
    np.testing.assert_allclose(values, np.array([row @ row, 0, 0]))
    np.testing.assert_array_equal(vectors[:, 1:], 0)


@pytest.mark.parametrize("directions", [0, 3])
def test_as_many_directions_as_there_can_be(directions: int) -> None:
    with pytest.raises(MethodError, match=rf"directions .*updates, 2; got {directions}"):
        leading_eigenpairs(np.eye(2), directions)
