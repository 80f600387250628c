"""Padded input of the compiled programs, and blocks of samples to score: no sample is lost or mixed
up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkin.core.client_engine import sums_by_row
from fedkin.core.randomness import Stream
from fedkin.data.federated import Ragged
from fedkin.simulation.batching import epoch_batches
from fedkin.simulation.jax.batch_plan import ProgramRows, plan, stack_plans
from fedkin.simulation.jax.scoring import chunks, make_blocks

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def flat(owned: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose features are their own row number."""
    total = int(owned.rows.max()) + 1
    return np.arange(total, dtype=np.float32)[:, None] * np.ones(2, np.float32), np.arange(
        total
    ) % 7


@given(sizes, st.lists(st.integers(0, 99), min_size=1, max_size=8))
def test_every_step_finds_its_samples(sizes: list[int], draws: list[int]) -> None:
    """Following the plan row by row gives each client exactly the samples its batches name."""
    order = Stream(len(sizes)).rng().permutation(sum(sizes))
    owned = Ragged.of(np.split(order, np.cumsum(sizes)[:-1]))
    x, y = flat(owned)
    clients = [draw % len(sizes) for draw in draws]
    model_index = [c % 3 for c in clients]
    batches = [epoch_batches(sizes[c], 4, 1 + c % 2, Stream(0).client(c)) for c in clients]
    words = np.arange(2 * len(clients), dtype=np.uint32).reshape(-1, 2)
    made = plan(y, owned, ProgramRows(np.array(clients), np.array(model_index), batches, words))
    samples = x[made.used]
    gathered = stack_plans([made], x, float(np.mean(sizes))).x
    assert gathered is not None
    np.testing.assert_array_equal(gathered[0, : len(samples)], samples)
    assert not gathered[0, len(samples) :].any()
    for row, (client, batch) in enumerate(zip(clients, batches, strict=True)):
        steps = slice(made.rows.first[row], made.rows.first[row] + made.rows.num_steps[row])
        np.testing.assert_array_equal(made.steps.valid[steps], batch.valid)
        for taken, rows, count in zip(
            made.steps.batches[steps],
            batch.rows,
            batch.valid,
            strict=True,
        ):
            expected = owned[client][rows[:count]]
            np.testing.assert_array_equal(samples[taken[:count], 0], expected)
            np.testing.assert_array_equal(made.y[taken[:count]], y[expected])
    n = len(clients)
    np.testing.assert_array_equal(made.rows.model_index[:n], model_index)
    np.testing.assert_array_equal(made.rows.words[:n], words)
    np.testing.assert_array_equal(made.rows.per_epoch[:n], [-(-sizes[c] // 4) for c in clients])
    assert not made.rows.num_steps[n:].any()
    assert made.steps.batches.min() >= 0 and made.steps.batches.max() < len(samples)


@st.composite
def requests(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    t = draw(st.integers(1, 300))
    model = draw(hnp.arrays(np.int64, t, elements=st.integers(0, 9)))
    return (7 * np.arange(t) + t) % 1000, model  # rows in no order, none twice


@given(requests())
def test_every_sample_is_in_a_block_of_its_model(request: tuple[np.ndarray, np.ndarray]) -> None:
    rows, model = request
    made = make_blocks(rows, model)
    size = made.take.shape[1]
    np.testing.assert_array_equal(made.take.ravel()[made.place], rows)
    np.testing.assert_array_equal(made.model_index[made.place // size], model)
    assert len(np.unique(made.place)) == len(rows)
    assert len(made.model_index) == len(made.take)


@given(requests(), st.integers(1, 10_000))
def test_portions_cover_the_blocks_within_the_limit(
    request: tuple[np.ndarray, np.ndarray], limit: int
) -> None:
    made = make_blocks(*request)
    x = np.zeros((1000, 3), np.float32)
    parts = [np.arange(len(made.model_index))[part] for part in chunks(made, x, limit)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(len(made.model_index)))
    for part in parts:
        assert len(part) == 1 or x[made.take[part]].nbytes <= limit


@given(st.lists(st.integers(0, 5), max_size=10))
def test_sums_sums_by_row(sizes: list[int]) -> None:
    values = np.arange(1, sum(sizes) + 1, dtype=np.float32)
    ends = np.cumsum([0, *sizes])
    expected = [values[a:b].sum() for a, b in pairwise(ends)]
    np.testing.assert_array_equal(sums_by_row(values, np.array(sizes, np.int64)), expected)


def test_calls_with_equally_many_clients_share_a_program() -> None:
    """The samples of the drawn clients are 100 to 200: below 128 and above it."""
    sizes = [20, 25, 30, 35, 40, 45, 50, 55]
    owned = Ragged.consecutive(np.array(sizes))
    x, y = flat(owned)

    def shapes(*clients: int) -> tuple[tuple[int, ...], ...]:
        batches = [epoch_batches(sizes[c], 10, 2, Stream(0).client(c)) for c in clients]
        words = np.zeros((len(clients), 2), np.uint32)
        rows = ProgramRows(np.array(clients), np.zeros(len(clients), int), batches, words)
        stacked = stack_plans([plan(y, owned, rows)], x, float(np.mean(sizes)))
        assert stacked.x is not None
        return (stacked.x.shape, stacked.y.shape, stacked.steps.batches.shape)

    assert shapes(0, 1, 2, 3) == shapes(4, 5, 6, 7) == shapes(0, 7, 2, 5)
    assert shapes(0, 1, 2, 3)[0] == (1, 256, 2)


def test_padding_is_bounded_and_never_too_small() -> None:
    """Where the drawn clients are unlike the mean, their own number of samples is rounded up."""
    sizes = [2, 2, 2, 500]
    owned = Ragged.consecutive(np.array(sizes))
    x, y = flat(owned)
    for clients, samples in (([0, 1], 4), ([3, 3], 512), ([2, 3], 512)):
        batches = [epoch_batches(sizes[c], 10, 1, Stream(0).client(c)) for c in clients]
        words = np.zeros((2, 2), np.uint32)
        rows = ProgramRows(np.array(clients), np.zeros(2, int), batches, words)
        stacked = stack_plans([plan(y, owned, rows)], x, float(np.mean(sizes)))
        assert stacked.x is not None and len(stacked.x[0]) == samples
