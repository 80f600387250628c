"""Principal components by the Gram matrix against scikit-learn's full SVD, which FedSim's code
calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from fedkin.core.errors import MethodError
from fedkin.measures import gram as gram_module
from fedkin.measures.pca import count_distinct, explained_variance, principal_scores


def draw(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def low_rank(n: int, parameters: int, rank: int) -> np.ndarray:
    return draw((n, rank), 1) @ draw((rank, parameters), 2) + 3


def common_mean(n: int, parameters: int, mean: float, spread: float) -> np.ndarray:
    """Rows that are nearly the same: their common part is mean / spread times as large as their
    differences."""
    return mean * draw((1, parameters), 3) + spread * draw((n, parameters), 4)


CASES = {
    "random": draw((12, 40)),
    "more rows than columns": draw((30, 4)),
    "as many rows as columns": draw((9, 9)),
    "one column": draw((6, 1)),
    "two rows": draw((2, 50)),
    "one strong direction": draw((10, 1)) * draw((1, 30), 5) + 0.01 * draw((10, 30), 6),
    "low rank": low_rank(14, 60, 3),
    "a large common mean": common_mean(10, 80, 1e4, 1.0),
    "a common mean that products would drown in": common_mean(8, 50, 1e8, 1.0),
    "float32": draw((12, 40)).astype(np.float32),
    "float32 with a large common mean": common_mean(10, 80, 1e3, 0.1).astype(np.float32),
    "tiny": 1e-12 * draw((7, 20)),
    "kinds": np.repeat(5 * draw((3, 25)), 4, axis=0) + 0.1 * draw((12, 25), 8),
}
each_case = pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())


def assert_scores_of_scikit_learn(rows: np.ndarray, variance: float = 0.95) -> None:
    fit = PCA(n_components=variance, svd_solver="full")
    expected = fit.fit_transform(rows.astype(np.float64))
    result = principal_scores(rows, variance)
    assert result.shape == expected.shape and result.dtype == np.float64
    signs = np.sign(np.sum(result * expected, axis=0))
    np.testing.assert_allclose(
        signs * result, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max()
    )


@each_case
def test_scores_are_those_of_scikit_learn(rows: np.ndarray) -> None:
    assert_scores_of_scikit_learn(rows)


@each_case
@pytest.mark.parametrize("variance", [0.3, 0.8, 0.99])
def test_other_shares_of_the_variance(rows: np.ndarray, variance: float) -> None:
    assert_scores_of_scikit_learn(rows, variance)


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 40))
def test_any_small_set(seed: int, n: int, parameters: int) -> None:
    assert_scores_of_scikit_learn(draw((n, parameters), seed).astype(np.float32))


@each_case
def test_explained_variance_equals_scikit_learn(rows: np.ndarray) -> None:
    expected = PCA(svd_solver="full").fit(rows.astype(np.float64)).explained_variance_ratio_
    result = explained_variance(rows)
    assert result.shape == (len(rows),)
    np.testing.assert_allclose(
        result[: len(expected)], expected[: len(result)], rtol=1e-6, atol=1e-10
    )
    np.testing.assert_allclose(result[len(expected) :], 0, atol=1e-10)


def test_components_by_hand() -> None:
    """Around the mean (1, 1) the rows lie at (+-3, 0) and (0, +-1): shares 0.9 and 0.1."""
    rows = np.array([[4, 1], [-2, 1], [1, 2], [1, 0]], np.float32)
    np.testing.assert_allclose(explained_variance(rows), [0.9, 0.1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(
        np.abs(principal_scores(rows, 0.89)), [[3], [3], [0], [0]], atol=1e-12
    )
    np.testing.assert_allclose(
        np.abs(principal_scores(rows, 0.95)), [[3, 0], [3, 0], [0, 1], [0, 1]], atol=1e-12
    )


def test_all_of_the_variance_keeps_all_distances() -> None:
    rows = CASES["kinds"]
    result = principal_scores(rows, 1)
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.testing.assert_allclose(np.linalg.norm(result[:, None] - result, axis=2), apart, atol=1e-9)


def test_more_columns_than_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_module, "_BLOCK", 1)
    assert_scores_of_scikit_learn(common_mean(6, 1000, 1e4, 1.0))


@pytest.mark.parametrize(
    "rows", [draw((1, 20)), np.zeros((1, 3), np.float32)], ids=["a row", "a row of zeros"]
)
def test_one_row(rows: np.ndarray) -> None:
    np.testing.assert_array_equal(principal_scores(rows), [[0]])
    np.testing.assert_array_equal(explained_variance(rows), [0])


SAME = {
    "zeros": np.zeros((5, 7), np.float32),
    "float32": np.tile(np.float32(0.1) * draw((1, 30)).astype(np.float32), (5, 1)),
    "float64, whose mean is not exactly the row": np.full((3, 5), 0.1),
}


@pytest.mark.parametrize("rows", SAME.values(), ids=SAME.keys())
def test_equal_rows(rows: np.ndarray) -> None:
    """They have nothing that sets them apart, and rounding must not invent it."""
    scores = principal_scores(rows)
    assert scores.shape == (len(rows), 1)
    np.testing.assert_allclose(scores, 0, atol=1e-12)
    assert count_distinct(scores) == 1
    np.testing.assert_array_equal(explained_variance(rows), np.zeros(len(rows)))


def test_equal_rows_among_others_stay_equal() -> None:
    rows = draw((4, 60)).astype(np.float32)[[0, 1, 2, 1, 3, 0, 1]]
    assert count_distinct(principal_scores(rows)) == 4


@pytest.mark.parametrize(
    ("scores", "count"),
    [
        (np.zeros((0, 2)), 0),
        (np.zeros((3, 2)), 1),
        (np.array([[1.0, 2], [1, 3], [1, 2]]), 2),
        (np.array([[1.0], [1 + 1e-13], [2]]), 2),
        (np.array([[1.0, 1e-14], [1, -1e-14], [1, 0]]), 1),
        (np.array([[1e-20], [2e-20], [3e-20]]), 3),
    ],
    ids=["none", "zeros", "two alike", "noise", "noise around zero", "small but apart"],
)
def test_distinct_rows(scores: np.ndarray, count: int) -> None:
    assert count_distinct(scores) == count


@pytest.mark.parametrize("variance", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_that_is_none(variance: float) -> None:
    with pytest.raises(MethodError, match="variance"):
        principal_scores(draw((3, 4)), variance)


def test_no_rows() -> None:
    with pytest.raises(MethodError, match="got 0"):
        principal_scores(np.zeros((0, 4)))
