"""Mini-batches: properties for every size, and FlexCFL's step generator."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.randomness import Stream
from fedkin.simulation.batching import (
    Batches,
    epoch_batches,
    rounded_up,
    sequential_batches,
    step_batches,
)

samples = st.integers(1, 40)
batch_size = st.integers(1, 15)


def rng(seed: int = 0) -> np.random.Generator:
    return Stream(seed).rng()


def lists(made: Batches) -> list[list[int]]:
    """The samples that count, step by step."""
    return [row[:count].tolist() for row, count in zip(made.rows, made.valid, strict=True)]


@given(samples, batch_size, st.integers(1, 5), st.integers(0, 9))
def test_every_epoch_visits_every_sample_once(n: int, size: int, epochs: int, seed: int) -> None:
    made = epoch_batches(n, size, epochs, rng(seed))
    assert made.rows.shape == (epochs * made.per_epoch, size)
    steps = lists(made)
    for epoch in range(epochs):
        part = steps[epoch * made.per_epoch : (epoch + 1) * made.per_epoch]
        assert sorted(itertools.chain(*part)) == list(range(n))
        assert [len(b) for b in part[:-1]] == [size] * (len(part) - 1)
        assert 1 <= len(part[-1]) <= size


@given(samples, batch_size, st.integers(1, 4))
def test_fewer_epochs_are_the_beginning_of_more(n: int, size: int, epochs: int) -> None:
    """So that a straggler's work is the first part of its full work."""
    whole = lists(epoch_batches(n, size, epochs + 1, rng()))
    part = lists(epoch_batches(n, size, epochs, rng()))
    assert whole[: len(part)] == part


def test_orders_are_shuffled_again_in_every_epoch() -> None:
    first, second, third = epoch_batches(20, 20, 3, rng()).rows.tolist()
    assert first != second != third != first
    assert first != list(range(20))
    assert epoch_batches(20, 20, 3, rng()).rows.tolist() == [first, second, third]
    assert epoch_batches(20, 20, 3, rng(1)).rows.tolist() != [first, second, third]


def test_every_order_is_as_likely() -> None:
    """All six orders of three samples in 6,000 epochs: each 1,000 times, within five standard
    deviations."""
    made = epoch_batches(3, 3, 6000, rng())
    counts = np.unique(made.rows, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(6000 * (1 / 6) * (5 / 6))


def step_generator(n: int, size: int, steps: int, shuffled: list[list[int]]) -> list[list[int]]:
    """FlexCFL's, step by step: full batches; the last of an epoch borrows from the next order,
    which then starts again from its beginning."""
    per_epoch = -(-n // size)
    orders = iter(shuffled)
    out = []
    order = next(orders)
    while len(out) < steps:
        out += [order[q * size : (q + 1) * size] for q in range(per_epoch - 1)]
        following = next(orders)
        out.append(order[(per_epoch - 1) * size :] + following[: (per_epoch * size) % n])
        order = following
    return out[:steps]


@given(samples, batch_size, st.integers(1, 30), st.integers(0, 9))
def test_steps_follow_the_step_generator(n: int, size: int, steps: int, seed: int) -> None:
    """The orders themselves are read back from batches without borrowing: one batch as large as the
    client."""
    per_epoch = -(-n // size)
    epochs = -(-steps // per_epoch) + 1
    orders = [b[:n] for b in lists(epoch_batches(n, n, epochs, rng(seed)))]
    made = step_batches(n, size, steps, rng(seed))
    assert lists(made) == step_generator(n, size, steps, orders)
    assert made.rows.shape == (steps, size)
    assert made.per_epoch == per_epoch


def test_steps_by_hand() -> None:
    """Five samples in batches of two: 2, 2, then the last one and one borrowed, which comes again
    right after."""
    steps = lists(step_batches(5, 2, 7, rng()))
    assert [len(b) for b in steps] == [2] * 7
    assert sorted([*steps[0], *steps[1], steps[2][0]]) == list(range(5))
    assert steps[2][1] == steps[3][0]
    assert sorted([*steps[3], *steps[4], steps[5][0]]) == list(range(5))
    assert steps[5][1] == steps[6][0]


@given(samples, batch_size)
def test_in_order(n: int, size: int) -> None:
    made = sequential_batches(n, size)
    assert list(itertools.chain(*lists(made))) == list(range(n))
    assert len(made.rows) == made.per_epoch == -(-n // size)


@given(samples, batch_size, st.integers(1, 12), st.integers(0, 3))
def test_padding_names_samples_that_exist(n: int, size: int, many: int, seed: int) -> None:
    for made in (
        epoch_batches(n, size, many, rng(seed)),
        step_batches(n, size, many, rng(seed)),
        sequential_batches(n, size),
    ):
        assert 0 <= made.rows.min() and made.rows.max() < n
        assert 1 <= made.valid.min() and made.valid.max() <= size


@given(st.integers(0, 10**9))
def test_a_bucket_holds_its_size_with_little_to_spare(size: int) -> None:
    made = rounded_up(size)
    assert max(size, 1) <= made < 1.25 * max(size, 1) + 1e-9
    assert rounded_up(made) == made
    assert made <= rounded_up(size + 1)


def test_buckets_are_few() -> None:
    """Four sizes per power of two: exact up to 8, and 36 of them from 9 up to 4,096."""
    made = {rounded_up(n) for n in range(4097)}
    assert {n for n in made if n <= 8} == set(range(1, 9))
    assert len({n for n in made if n > 8}) == 4 * 9


def test_batch_sizes_of_the_published_order(oracle: Callable[[str], dict[str, Any]]) -> None:
    """The FedProx family's batches (their order is frozen, ours is not): as many, as large, the
    last short one kept."""
    vector = oracle("misc")["batch_order_fedprox"]
    made = epoch_batches(len(vector["data"]), vector["batch_size"], len(vector["epochs"]), rng())
    assert [len(b) for b in lists(made)] == [len(b) for epoch in vector["epochs"] for b in epoch]


@pytest.mark.parametrize("n", [1, 3, 10])
def test_a_batch_larger_than_the_client(n: int) -> None:
    assert [len(b) for b in lists(epoch_batches(n, 10, 2, rng()))] == [n, n]
