"""Vectors as integers: unbiased, never out of range in silence, and with the means of the
vectors."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.secret.quantization import EXTRA, IntegerGrid


def added(vectors: list[np.ndarray]) -> np.ndarray:
    """Their sum modulo 2^32, as one of K = 1."""
    return np.stack(vectors).sum(axis=0, dtype=np.uint32)[None]


def test_the_most_that_clients_can_send_fits() -> None:
    for clients in (1, 2, 3, 20, 100, 127, 128, 129, 1000):
        grid = IntegerGrid(clients, 1.5, 10)
        assert clients * 2**grid.bits <= 2**32
        assert clients < 2 or clients * 2 ** (grid.bits + 1) > 2**32
        rng = np.random.default_rng(0)
        for sign in (1, -1):
            vectors = [grid.quantized(np.full(3, sign * 1.5, np.float32), 10, rng)] * clients
            sums = grid.sums(added(vectors))
            np.testing.assert_allclose(sums.mean, sign * 1.5, atol=1e-9)


def test_weighted_means_are_those_of_the_vectors() -> None:
    rng = np.random.default_rng(1)
    updates = rng.normal(size=(20, 200)).astype(np.float32)
    examples = rng.integers(1, 100, 20)
    grid = IntegerGrid(20, 8.0, 1000)
    total = sum(
        grid.quantized(u, n, rng).astype(np.uint64)
        for u, n in zip(updates, examples.tolist(), strict=True)
    )
    sums = grid.sums(np.asarray(total).astype(np.uint32)[None])
    expected = np.average(updates.astype(np.float64), axis=0, weights=examples)
    np.testing.assert_allclose(sums.mean[0], expected, atol=1e-6)
    assert (sums.weight[0], sums.clients[0], sums.clipped[0], sums.unusable[0]) == (
        examples.sum(),
        20,
        0,
        0,
    )


def test_rounding_has_no_bias() -> None:
    """A number at a quarter between two integers is the lower one in three of four cases."""
    grid = IntegerGrid(2**20, 1.0, 1)
    draws = 40000
    number = 0.25 / grid.scale
    vector = grid.quantized(np.full(draws, number), 1, np.random.default_rng(2))[:-EXTRA].view(
        np.int32
    )
    assert set(vector.tolist()) == {0, 1}
    assert vector.mean() == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / draws))


def test_the_error_comes_from_the_rounding() -> None:
    """Standard deviation of a sum's error over uniform positions: sqrt(n / 6) steps of the grid."""
    rng = np.random.default_rng(3)
    grid = IntegerGrid(20, 1.0, 1)
    updates = rng.uniform(-1, 1, (20, 5000))
    total = sum(grid.quantized(u, 1, rng).astype(np.uint64) for u in updates)
    error = (
        (grid.sums(np.asarray(total).astype(np.uint32)[None]).mean[0] - updates.mean(axis=0))
        * 20
        * grid.scale
    )
    assert error.std() == pytest.approx(np.sqrt(20 / 6), rel=0.05)


def test_values_out_of_range_are_clipped_and_counted() -> None:
    grid = IntegerGrid(3, 1.0, 1)
    rng = np.random.default_rng(4)
    vectors = [
        grid.quantized(np.array(u, np.float32), 1, rng)
        for u in ([0.5, -9.0], [0.5, 0.0], [np.nan, 1.0])
    ]
    sums = grid.sums(added(vectors))
    np.testing.assert_allclose(sums.mean[0], [0.5, -0.5], atol=1e-8)  # of the two that are finite
    assert (sums.weight[0], sums.clients[0], sums.clipped[0], sums.unusable[0]) == (2, 2, 1, 1)


def test_a_client_without_examples_is_none() -> None:
    grid = IntegerGrid(3, 1.0, 10)
    rng = np.random.default_rng(4)
    vectors = [grid.quantized(np.array([0.5], np.float32), examples, rng) for examples in (4, 0, 4)]
    sums = grid.sums(added(vectors))
    assert (sums.weight[0], sums.clients[0], sums.unusable[0]) == (8, 2, 1)


def test_a_client_weighs_its_examples_up_to_the_cap() -> None:
    grid = IntegerGrid(3, 4.0, 10)
    rng = np.random.default_rng(5)
    vectors = [
        grid.quantized(np.array([x], np.float32), n, rng)
        for x, n in ((1.0, 500), (2.0, 10), (4.0, 5))
    ]
    sums = grid.sums(added(vectors))
    assert sums.mean[0, 0] == pytest.approx((10 * 1 + 10 * 2 + 5 * 4) / 25, abs=1e-7)


def test_weights_that_do_not_fit_are_known() -> None:
    assert (
        IntegerGrid(20, 1.0, 1000).fits()
        and not IntegerGrid(2**12, 1.0, 2**20).fits()
        and not IntegerGrid(2**25, 1.0, 1).fits()
    )
