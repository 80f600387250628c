"""Means by cluster and inter-cluster aggregation: numbers worked by hand, and the laws any mean
obeys."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkin.aggregation import inter_cluster_aggregation, mean_by_model, simple_mean_by_cluster

K = 3


def f32(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_weighted_mean_by_hand() -> None:
    update = f32([[1, 0], [0, 2], [4, 4], [8, 0]])
    mean, weight = mean_by_model(update, np.array([10, 30, 5, 0]), np.array([0, 0, 2, 2]), 4)
    np.testing.assert_array_equal(mean, f32([[0.25, 1.5], [0, 0], [4, 4], [0, 0]]))
    np.testing.assert_array_equal(weight, [40, 0, 5, 0])
    assert mean.dtype == np.float32 and weight.dtype == np.float64


def test_no_row_at_all() -> None:
    mean, weight = mean_by_model(
        np.zeros((0, 3), np.float32), np.zeros(0), np.zeros(0, np.int64), 2
    )
    np.testing.assert_array_equal(mean, np.zeros((2, 3)))
    np.testing.assert_array_equal(weight, [0, 0])


def test_only_zero_weights_give_a_zero_mean() -> None:
    mean, weight = mean_by_model(f32([[3, 4]]), np.array([0.0]), np.array([0]), 1)
    np.testing.assert_array_equal(mean, [[0, 0]])
    np.testing.assert_array_equal(weight, [0])


def test_long_sums_keep_small_terms() -> None:
    """In float32, 1e8 + 1 - 1e8 is 0: the sum has to be longer than the numbers."""
    mean, _ = mean_by_model(f32([[1e8], [1], [-1e8]]), np.ones(3), np.zeros(3, np.int64), 1)
    np.testing.assert_allclose(mean, [[1 / 3]], rtol=1e-6)


def test_simple_mean_by_hand() -> None:
    rows = f32([[1, 1], [3, 5], [7, 7]])
    np.testing.assert_allclose(
        simple_mean_by_cluster(rows, np.array([1, 1, 0]), 2), [[7, 7], [2, 3]]
    )


def test_inter_cluster_by_hand() -> None:
    """Norms 5 and 10, eta 2: ((3, 4) + 2 (0, 1)) / (1 + 2/10) and ((0, 10) + 2 (.6, .8)) / (1 +
    2/5)."""
    models = f32([[3, 4], [0, 10]])
    np.testing.assert_allclose(
        inter_cluster_aggregation(models, 2.0),
        [[3 / 1.2, 6 / 1.2], [1.2 / 1.4, 11.6 / 1.4]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        inter_cluster_aggregation(models, 2.0, normalize=False), [[3, 6], [1.2, 11.6]], rtol=1e-6
    )


def test_inter_cluster_sums_over_the_models_before_it() -> None:
    """All clusters at once: swapping two clusters swaps the results, which an in-place loop would
    not give."""
    models = f32([[1, 2], [3, -1], [-2, 5]])
    order = np.array([2, 0, 1])
    np.testing.assert_allclose(
        inter_cluster_aggregation(models[order], 0.5),
        inter_cluster_aggregation(models, 0.5)[order],
        rtol=1e-6,
    )


@pytest.mark.parametrize("normalize", [True, False])
def test_inter_cluster_that_does_nothing(normalize: bool) -> None:
    models = f32([[1, 2], [3, -1]])
    np.testing.assert_array_equal(
        inter_cluster_aggregation(models, 0.0, normalize=normalize), models
    )
    np.testing.assert_array_equal(
        inter_cluster_aggregation(models[:1], 5.0, normalize=normalize), models[:1]
    )


@pytest.mark.parametrize("normalize", [True, False])
def test_inter_cluster_with_a_model_of_zeros(normalize: bool) -> None:
    """A zero model has no direction: it adds nothing to the others, and nothing becomes NaN."""
    after = inter_cluster_aggregation(f32([[0, 0], [3, 4]]), 1.0, normalize=normalize)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after[1], [3, 4], rtol=1e-6)


values = st.floats(-100, 100, width=32, allow_subnormal=False)


@st.composite
def calls(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 8))
    p = draw(st.integers(1, 4))
    update = draw(hnp.arrays(np.float32, (n, p), elements=values))
    weight = draw(hnp.arrays(np.float64, n, elements=st.integers(0, 500)))
    return update, weight, draw(hnp.arrays(np.int64, n, elements=st.integers(0, K - 1)))


@given(calls())
def test_a_mean_lies_among_its_rows(call: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    update, weight, model_index = call
    mean, total = mean_by_model(update, weight, model_index, K)
    for k in range(K):
        rows = update[(model_index == k) & (weight > 0)]
        low, high = (rows.min(axis=0), rows.max(axis=0)) if len(rows) else (0.0, 0.0)
        slack = 1e-5 * (1 + np.abs(mean[k]))
        assert np.all(mean[k] >= low - slack) and np.all(mean[k] <= high + slack)
        assert total[k] == weight[model_index == k].sum()


@given(calls(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    call: tuple[np.ndarray, np.ndarray, np.ndarray], random: Random
) -> None:
    update, weight, model_index = call
    order = np.array(random.sample(range(len(weight)), len(weight)))
    mean, total = mean_by_model(update, weight, model_index, K)
    again, total_again = mean_by_model(update[order], weight[order], model_index[order], K)
    np.testing.assert_allclose(again, mean, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(total_again, total)


@given(calls(), st.integers(1, 64))
def test_only_the_ratio_of_weights_matters(
    call: tuple[np.ndarray, np.ndarray, np.ndarray], times: int
) -> None:
    update, weight, model_index = call
    mean, total = mean_by_model(update, weight, model_index, K)
    again, more = mean_by_model(update, times * weight, model_index, K)
    np.testing.assert_allclose(again, mean, rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(more, times * total)


@given(
    hnp.arrays(np.float32, 3, elements=values),
    st.lists(st.integers(1, 500), min_size=1, max_size=8),
)
def test_equal_rows_are_their_own_mean(row: np.ndarray, weight: list[int]) -> None:
    n = len(weight)
    mean, _ = mean_by_model(np.tile(row, (n, 1)), np.array(weight, float), np.zeros(n, np.int64), 1)
    np.testing.assert_allclose(mean[0], row, rtol=1e-6)


@given(calls())
def test_simple_mean_is_the_mean_with_equal_weights(
    call: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    update, _, model_index = call
    labels = np.concatenate([model_index, np.arange(K)])  # no cluster empty
    rows = np.concatenate([update, np.ones((K, update.shape[1]), np.float32)])
    mean, _ = mean_by_model(rows, np.ones(len(rows)), labels, K)
    np.testing.assert_allclose(simple_mean_by_cluster(rows, labels, K), mean, rtol=1e-6, atol=1e-5)


lengths = st.lists(st.floats(0.5, 10), min_size=2, max_size=4)


@given(lengths, st.floats(0, 5))
def test_normalised_aggregation_of_equal_models_is_the_identity(
    direction: list[float], eta: float
) -> None:
    """With every w_l = w, numerator and denominator carry the same factor 1 + eta (K - 1) / |w|."""
    models = np.tile(np.array(direction, np.float32), (K, 1))
    np.testing.assert_allclose(inter_cluster_aggregation(models, eta), models, rtol=1e-5)


@given(lengths, st.floats(0.01, 5))
def test_the_papers_sum_lengthens_equal_models(direction: list[float], eta: float) -> None:
    """Without the denominator each |w| grows by eta (K - 1), which is why the authors' code
    divides."""
    models = np.tile(np.array(direction, np.float32), (K, 1))
    grown = np.linalg.norm(
        inter_cluster_aggregation(models, eta, normalize=False), axis=1
    ) - np.linalg.norm(models, axis=1)
    np.testing.assert_allclose(grown, eta * (K - 1), rtol=1e-3, atol=1e-4)
