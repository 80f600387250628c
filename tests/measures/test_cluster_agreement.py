"""The adjusted Rand index by hand, by its laws, and against scikit-learn to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from fedkin.measures.cluster_agreement import adjusted_rand_index

LABELS = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], 1.0),  # names do not count
        ([0, 0, 0, 0], [0, 1, 2, 3], 0.0),
        ([0, 0, 1, 1], [0, 0, 0, 1], 0.0),  # ordered pairs: a, b, c, d = 2, 2, 4, 4
        (
            [0, 0, 1, 1, 2, 2],
            [0, 0, 1, 2, 2, 2],
            4 / 9,
        ),  # 4, 2, 4, 20: 2 (80 - 8) / (6 * 22 + 8 * 24)
        ([3], [5], 1.0),
    ],
)
def test_by_hand(first: list[int], second: list[int], expected: float) -> None:
    assert adjusted_rand_index(np.array(first), np.array(second)) == pytest.approx(
        expected, abs=1e-15
    )


@given(LABELS)
def test_scikit_learn_says_the_same_to_the_last_bit(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs).T
    assert adjusted_rand_index(first, second) == adjusted_rand_score(first, second)
    assert adjusted_rand_index(first, second) == adjusted_rand_index(second, first)
